// Operations on traced text that filters and methods share.
#pragma once
#include "text/template/interpreter.h"

namespace makar::jinja {

enum class Case { kUpper, kLower, kTitle, kWords, kCapitalize, kSwap };
Traced change_case(const Traced& text, Case to, Budget& budget);
Traced strip(const Traced& text, bool left, bool right, const std::string* chars, Budget& budget);
// `count` < 0 replaces all.
Traced replace(const Traced& text, const Traced& from, const Traced& to, int64_t count, Interpreter& in);
// A null separator splits at runs of whitespace, as str.split() does.
std::vector<Value> split(const Traced& text, const std::string* separator, int64_t max, bool from_right,
                         Interpreter& in);
std::vector<Value> split_lines(const Traced& text, bool keep_ends, Interpreter& in);
Traced join(const std::vector<Value>& items, const Traced& separator, Interpreter& in);
// Returns an integer argument; fails naming `what` otherwise.
int64_t integer_of(const Value& v, const char* what);
// Converts any value to text, as filters do with their input.
Traced soft_text(const Value& v, Interpreter& in);

}  // namespace makar::jinja
