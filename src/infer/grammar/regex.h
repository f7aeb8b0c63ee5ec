// Regular expressions. Supported: literals, '.', classes with ranges and \d \w \s \D \W \S, groups (plain,
// (?:) and named), '|', * + ? {n} {n,} {n,m} (a lazy '?' after them does not change the language and is
// ignored), escapes \n \r \t \f \v \0 \xHH \x{H} \uHHHH \u{H}, '^' at the start and '$' at the end of the
// whole expression or of an alternative. Rejected with an error: back-references, look-around, \b, flags, \p.
#pragma once
#include <functional>
#include <string_view>

#include "infer/grammar/automaton.h"

namespace makar::grammar {

struct RegexOptions {
  bool search = false;  // match anywhere, as in JSON schema: unanchored ends may be surrounded by any text
  // The expression for one character of a set; default: UTF-8. JSON strings escape some characters.
  std::function<ExprPtr(const CodePoints&)> character;
};

Result<ExprPtr> read_regex(std::string_view text, const Limits& limits, WorkBudget& work,
                           const RegexOptions& options = {});

}  // namespace makar::grammar
