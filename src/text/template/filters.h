// The table of filters: value | name(arguments).
#pragma once
#include "text/template/interpreter.h"

namespace makar::jinja {

using Filter = Value (*)(Interpreter& in, const Value& input, const Arguments& arguments);
struct FilterEntry {
  const char* name;
  Filter apply;
};

const std::vector<FilterEntry>& text_filters();    // filters_text.cpp
const std::vector<FilterEntry>& list_filters();    // filters_list.cpp
const std::vector<FilterEntry>& select_filters();  // filters_select.cpp

// Resolves a path such as "a.b.0" in a value.
Value path(Interpreter& in, Value v, const Value& name);

}  // namespace makar::jinja
