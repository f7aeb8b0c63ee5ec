// GBNF, the notation of grammars in llama.cpp: rules `name ::= ...` with "literals", [classes], '.', groups,
// '|',
// * + ? {n,m} and # comments. A rule goes on over a line's end inside of a group and after '|'. The rule
// 'root' is the text.
#pragma once
#include <string_view>

#include "infer/grammar/automaton.h"

namespace makar::grammar {

Result<RuleSet> read_gbnf(std::string_view text, const Limits& limits);

}  // namespace makar::grammar
