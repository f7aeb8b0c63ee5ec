// GBNF, the grammar notation of llama.cpp: rules `name ::= ...` with "literals", [classes], '.', groups, '|',
// * + ? {n,m} and # comments. A rule continues on the next line inside a group and after '|'. The rule 'root'
// matches the whole text.
#pragma once
#include <string_view>

#include "infer/grammar/automaton.h"

namespace makar::grammar {

Result<RuleSet> read_gbnf(std::string_view text, const Limits& limits, WorkBudget& work);

}  // namespace makar::grammar
