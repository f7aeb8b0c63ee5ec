// Rules of JSON as text: values, strings, numbers and the blanks between them. Blanks are at most one space,
// or one or two line ends with up to 20 blanks of indentation: enough for every usual style, too little to
// write for ever.
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
  // A string that is none of `keys`, for further properties of an object.
  ExprPtr key_besides(const std::vector<std::string>& keys);
  // "," with blanks around it.
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
  std::map<std::string, int> known_;
};

// One character inside of a JSON string: of a set in its usual form, or any in any form (escapes included).
ExprPtr json_character(const CodePoints& set);
ExprPtr any_json_character();
// A value exactly as it is written without blanks.
ExprPtr json_constant(const Json& value);
// Whole numbers from `low` to `high`; up to 16 digits where a side is open.
ExprPtr integer_between(std::optional<int64_t> low, std::optional<int64_t> high);

}  // namespace makar::grammar
