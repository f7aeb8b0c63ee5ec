// Regular expressions. Read: literals, '.', classes with ranges and \d \w \s \D \W \S, groups (plain, (?:)
// and named), '|', * + ? {n} {n,} {n,m} (a '?' after them changes no language and is passed over), escapes \n
// \r \t \f \v \0 \xHH \x{H} \uHHHH \u{H}, '^' at the beginning and '$' at the end of the whole or of one of
// its alternatives. Not read, with an error that says so: back-references, look-around, \b, flags, \p.
#pragma once
#include <functional>
#include <string_view>

#include "infer/grammar/automaton.h"

namespace makar::grammar {

struct RegexOptions {
  bool search =
      false;  // match anywhere, as in JSON schema: what is not anchored may be surrounded by anything
  // What stands for one character of a set; UTF-8 when absent. JSON strings write some characters in another
  // way.
  std::function<ExprPtr(const CodePoints&)> character;
};

Result<ExprPtr> read_regex(std::string_view text, const Limits& limits, const RegexOptions& options = {});

}  // namespace makar::grammar
