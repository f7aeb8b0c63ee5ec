// Rules for the text of JSON: values, strings, numbers and whitespace. Whitespace is at most one space, or
// one or two line ends with up to 20 blanks of indentation: enough for every common style, and bounded so
// that generation ends.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "infer/grammar/expr.h"

namespace makar::grammar {

class JsonText {
 public:
  explicit JsonText(RuleSet& rules) : rules_(rules) {}

  ExprPtr blank();
  ExprPtr value();
  ExprPtr string();
  ExprPtr number();
  ExprPtr integer();
  // A string other than `keys`, for additional properties of an object.
  ExprPtr key_except(const std::vector<std::string>& keys);
  // "," with optional whitespace.
  ExprPtr comma();

 private:
  ExprPtr rule(const char* name, ExprPtr (JsonText::*make)());
  ExprPtr make_blank();
  ExprPtr make_value();
  ExprPtr make_object();
  ExprPtr make_array();
  ExprPtr make_string();
  ExprPtr make_string_rest();
  ExprPtr make_number();
  ExprPtr make_integer();

  RuleSet& rules_;
  std::map<std::string, int> rule_ids_;
};

// One character inside a JSON string: one of a set, each in one form (escaped only where JSON requires it),
// or any character in any form.
ExprPtr json_character(const CodePoints& set);
ExprPtr any_json_character();
// A value in its compact form, without whitespace.
ExprPtr json_constant(const Json& value);
// One digit from `low` to `high`.
ExprPtr digit(char low, char high);
// Integers from `low` to `high`; up to 16 digits if a side is unbounded.
ExprPtr integer_between(std::optional<int64_t> low, std::optional<int64_t> high);
// Digits of an integer from `low` (>= 0) to `high`; -1: unbounded.
ExprPtr natural_between(int64_t low, int64_t high);

struct NumberBound {
  double value = 0;
  bool open = false;  // the bound is exclusive
};
// Numbers between bounds, without exponents. Null: a bound needs more than 16 digits.
ExprPtr number_between(const std::optional<NumberBound>& low, const std::optional<NumberBound>& high);

}  // namespace makar::grammar
