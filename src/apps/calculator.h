// Exact arithmetic on rational numbers, for the calculator of agents.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"

namespace makar {

// The value of an expression: + - * / % (remainder), ^ or ** (integer exponents), ! (factorial), parentheses,
// abs, min, max, gcd, floor, ceil, round, sqrt; numbers such as 12, 1,000.5 or 3e4. The result is exact: an
// integer, a decimal number, or a fraction "1/3" with an approximation. Only sqrt of a number that is
// not a square is approximate; the result then begins with "about". Errors name the position; numbers of more
// than 100,000 bits, more than 10,000 characters and more than 200 levels of parentheses are refused.
Result<std::string> calculate(std::string_view expression);

}  // namespace makar
