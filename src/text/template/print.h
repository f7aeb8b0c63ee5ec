// Values as text: Python's str and repr, and json.dumps with the settings of transformers' tojson.
#pragma once
#include <optional>

#include "text/template/value.h"

namespace makar::jinja {

// The output of {{ value }}.
Traced print(const Value& v, Heap& heap);
Traced repr(const Value& v, Heap& heap);
std::string print_float(double d);

struct JsonStyle {
  std::optional<int> indent;
  std::string item_separator = ", ", key_separator = ": ";
  bool sort_keys = false, ascii = false;
};
Traced to_json(const Value& v, const JsonStyle& style, Heap& heap);

}  // namespace makar::jinja
