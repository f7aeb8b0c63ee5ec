// Splits template source into tokens, with the whitespace control that transformers configures: trim_blocks
// (removes the newline after a block) and lstrip_blocks (removes blanks before a block on its line); `-` and
// `+` override them.
#pragma once
#include <deque>
#include <string>
#include <string_view>

#include "text/template/budget.h"

namespace makar::jinja {

struct Token {
  enum class Type {
    kData,
    kPrintBegin,
    kPrintEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInt,
    kFloat,
    kOperator,
    kEnd
  };
  Type type;
  std::string text;  // of data, names, strings (escapes resolved) and operators
  union {
    int64_t integer = 0;
    double real;
  };
  int line = 1, column = 1;

  bool is_name(std::string_view name) const { return type == Type::kName && text == name; }
  bool is_operator(std::string_view op) const { return type == Type::kOperator && text == op; }
};

// Throws Failure with the position of the first error.
std::deque<Token> tokenize(std::string_view source, const Limits& limits);
// Describes a token for error messages.
std::string describe(const Token& token);

}  // namespace makar::jinja
