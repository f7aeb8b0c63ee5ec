// Code points in the Unicode tables of utf8proc that the tables of the installed PCRE2 lack. Patterns that
// name a general category get them as additional class members, so that \p{S} means the same as category().
#pragma once
#include <string>
#include <string_view>

namespace makar {

// The members of a PCRE2 class, and after them the newer code points of every \p{...} in it that names a
// general category, Alphabetic, Uppercase or Lowercase. Scripts and other properties do not change.
std::string with_newer_code_points(std::string_view members);

// All newer code points as members of a PCRE2 class; "" when both tables have the same version.
const std::string& newer_code_points();

}  // namespace makar
