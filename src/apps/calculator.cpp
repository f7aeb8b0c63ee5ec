#include "apps/calculator.h"

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <vector>

#include "base/quote.h"

namespace makar {
namespace {

using boost::multiprecision::cpp_int;
using boost::multiprecision::cpp_rational;

constexpr size_t kMaxExpressionBytes = 10000;
constexpr int kMaxDepth = 200;
constexpr int64_t kMaxBits = 100000, kMaxDecimals = 60;
constexpr unsigned kMaxExponent = 10000, kMaxFactorial = 5000;
constexpr unsigned kFractionDecimals = 12;  // of the approximation of a fraction
constexpr int kRootDigits = 30;             // decimals of an inexact root

int64_t bits_of(const cpp_int& value) {
  return value == 0 ? 0 : static_cast<int64_t>(boost::multiprecision::msb(boost::multiprecision::abs(value)));
}
int64_t bits_of(const cpp_rational& value) {
  return std::max(bits_of(numerator(value)), bits_of(denominator(value)));
}
bool is_integer(const cpp_rational& value) { return denominator(value) == 1; }

cpp_int floor_of(const cpp_rational& value) {
  cpp_int quotient, remainder;
  divide_qr(numerator(value), denominator(value), quotient, remainder);
  return remainder < 0 ? quotient - 1 : quotient;
}

cpp_int power_of_ten(unsigned digits) { return pow(cpp_int(10), digits); }

// `digits` decimals, rounded half away from zero.
std::string decimals(const cpp_rational& value, unsigned digits) {
  const bool negative = value < 0;
  const cpp_rational magnitude = negative ? cpp_rational(-value) : value;
  std::string text = floor_of(magnitude * power_of_ten(digits) + cpp_rational(1, 2)).str();
  if (text.size() <= digits) text.insert(0, digits + 1 - text.size(), '0');
  if (digits > 0) text.insert(text.size() - digits, ".");
  return (negative ? "-" : "") + text;
}

std::string text_of(const cpp_rational& value) {
  if (is_integer(value)) return numerator(value).str();
  cpp_int remaining = denominator(value);
  unsigned twos = 0, fives = 0;
  for (; remaining % 2 == 0 && twos <= kMaxDecimals; ++twos) remaining /= 2;
  for (; remaining % 5 == 0 && fives <= kMaxDecimals; ++fives) remaining /= 5;
  const unsigned digits = std::max(twos, fives);
  if (remaining == 1 && digits <= kMaxDecimals) return decimals(value, digits);
  return value.str() + " (about " + decimals(value, kFractionDecimals) + ")";
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::string> run() {
    MAKAR_TRY(const cpp_rational value, sum(0));
    skip_blanks();
    if (at_ < text_.size()) return wrong("an operator");
    return (inexact_ ? "about " : "") + text_of(value);
  }

 private:
  Error wrong(const char* expected) const {
    return at_ < text_.size()
               ? error_at(fmt::format("character {}", at_ + 1), "expected {}, found {}", expected,
                          quote(text_.substr(at_, 20)))
               : error_at(fmt::format("character {}", at_ + 1), "expected {}, found the end", expected);
  }
  Error problem(const std::string& what) const {
    return error_of(Error::Kind::kLimit, fmt::format("character {}", at_), "{}", what);
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool take(std::string_view symbol) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(symbol)) return false;
    at_ += symbol.size();
    return true;
  }
  Result<cpp_rational> bounded(cpp_rational value) const {
    if (bits_of(value) > kMaxBits) return problem("the number is too large");
    return value;
  }

  Result<cpp_rational> sum(int depth) {
    if (depth > kMaxDepth) return problem("too many levels of parentheses");
    MAKAR_TRY(cpp_rational value, product(depth));
    for (;;) {
      const bool plus = take("+"), minus = !plus && (take("-") || take("−"));
      if (!plus && !minus) return value;
      MAKAR_TRY(const cpp_rational next, product(depth));
      MAKAR_TRY(value, bounded(plus ? cpp_rational(value + next) : cpp_rational(value - next)));
    }
  }

  Result<cpp_rational> product(int depth) {
    MAKAR_TRY(cpp_rational value, sign(depth));
    for (;;) {
      skip_blanks();
      if (text_.substr(at_).starts_with("**")) return value;
      const bool multiply = take("*") || take("×") || take("·");
      const bool divide = !multiply && (take("/") || take("÷"));
      const bool modulo = !multiply && !divide && take("%");
      if (!multiply && !divide && !modulo) return value;
      MAKAR_TRY(const cpp_rational next, sign(depth));
      if (!multiply && next == 0) return problem("division by zero");
      cpp_rational result;
      if (multiply)
        result = value * next;
      else if (divide)
        result = value / next;
      else
        result = value - next * floor_of(value / next);
      MAKAR_TRY(value, bounded(std::move(result)));
    }
  }

  Result<cpp_rational> sign(int depth) {
    if (depth > kMaxDepth) return problem("too many signs");
    if (take("+")) return sign(depth + 1);
    if (take("-") || take("−")) {
      MAKAR_TRY(const cpp_rational value, sign(depth + 1));
      return cpp_rational(-value);
    }
    return power(depth);
  }

  Result<cpp_rational> power(int depth) {
    MAKAR_TRY(cpp_rational base, postfix(depth));
    if (!take("**") && !take("^")) return base;
    MAKAR_TRY(const cpp_rational exponent, sign(depth + 1));  // right to left
    if (!is_integer(exponent)) return problem("an exponent must be an integer; use sqrt for roots");
    if (base == 0 && exponent < 0) return problem("division by zero");
    const cpp_int size = abs(numerator(exponent));
    if (base == 0 || base == 1 || base == -1)
      return exponent == 0 ? cpp_rational(1) : base == -1 && size % 2 == 0 ? cpp_rational(1) : base;
    if (size > kMaxBits || (bits_of(base) + 1) * size.convert_to<int64_t>() > kMaxBits)
      return problem("the power is too large");
    const auto times = size.convert_to<unsigned>();
    const cpp_rational out(pow(numerator(base), times), pow(denominator(base), times));
    return exponent < 0 ? cpp_rational(1 / out) : out;
  }

  Result<cpp_rational> postfix(int depth) {
    MAKAR_TRY(cpp_rational value, primary(depth));
    while (take("!")) {
      if (!is_integer(value) || value < 0) return problem("a factorial needs an integer from 0");
      if (value > kMaxFactorial) return problem("the factorial is too large");
      cpp_int out = 1;
      for (unsigned i = 2; i <= numerator(value).convert_to<unsigned>(); ++i) out *= i;
      MAKAR_TRY(value, bounded(cpp_rational(out)));
    }
    return value;
  }

  Result<cpp_rational> primary(int depth) {
    skip_blanks();
    if (take("(")) {
      MAKAR_TRY(cpp_rational value, sum(depth + 1));
      if (!take(")")) return wrong("')'");
      return value;
    }
    if (at_ < text_.size() && ((text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == '.'))
      return number();
    return function(depth);
  }

  // Digits; commas between groups of three are dropped.
  std::string digits() {
    std::string out;
    const auto digit = [&](size_t i) { return i < text_.size() && text_[i] >= '0' && text_[i] <= '9'; };
    for (;;) {
      if (digit(at_)) {
        out += text_[at_++];
      } else if (arguments_ == 0 && !out.empty() && at_ < text_.size() && text_[at_] == ',' &&
                 digit(at_ + 1) && digit(at_ + 2) && digit(at_ + 3) && !digit(at_ + 4)) {
        ++at_;
      } else {
        return out;
      }
    }
  }

  Result<cpp_rational> number() {
    const std::string integer_part = digits();
    std::string decimals;
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') decimals += text_[at_++];
    }
    if (integer_part.empty() && decimals.empty()) return wrong("a number");
    std::string plain = integer_part + decimals;
    plain.erase(0, std::min(plain.find_first_not_of('0'), plain.size() - 1));  // a leading 0 means octal
    cpp_rational value(cpp_int(plain), power_of_ten(static_cast<unsigned>(decimals.size())));
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      size_t next = at_ + 1;
      const bool negative = next < text_.size() && text_[next] == '-';
      if (negative || (next < text_.size() && text_[next] == '+')) ++next;
      unsigned exponent = 0;
      const size_t first = next;
      for (; next < text_.size() && text_[next] >= '0' && text_[next] <= '9'; ++next)
        exponent =
            std::min<unsigned>(exponent * 10 + static_cast<unsigned>(text_[next] - '0'), kMaxExponent + 1);
      if (next == first) return wrong("an operator");
      if (exponent > kMaxExponent) return problem("the number is too large");
      at_ = next;
      const cpp_int scale = power_of_ten(exponent);
      value = negative ? cpp_rational(value / scale) : cpp_rational(value * scale);
    }
    return bounded(std::move(value));
  }

  Result<cpp_rational> function(int depth) {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= 'a' && text_[at_] <= 'z') ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    constexpr std::array<std::string_view, 8> kNames = {"abs",   "min",  "max",   "gcd",
                                                        "floor", "ceil", "round", "sqrt"};
    if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
      at_ = begin;
      return wrong("a number, '(' or abs, min, max, gcd, floor, ceil, round, sqrt");
    }
    if (!take("(")) return wrong("'('");
    std::vector<cpp_rational> values;
    ++arguments_;
    do {
      MAKAR_TRY(cpp_rational value, sum(depth + 1));
      values.push_back(std::move(value));
    } while (take(","));
    --arguments_;
    if (!take(")")) return wrong("')'");
    const bool takes_many = name == "min" || name == "max" || name == "gcd";
    if (!takes_many && values.size() > (name == "round" ? 2U : 1U))
      return problem(
          fmt::format("{} takes {}", name, name == "round" ? "one or two arguments" : "one argument"));
    return apply(name, values);
  }

  Result<cpp_rational> apply(std::string_view name, const std::vector<cpp_rational>& values) {
    const cpp_rational& first = values.front();
    if (name == "abs") return first < 0 ? cpp_rational(-first) : first;
    if (name == "min") return *std::min_element(values.begin(), values.end());
    if (name == "max") return *std::max_element(values.begin(), values.end());
    if (name == "floor") return cpp_rational(floor_of(first));
    if (name == "ceil") return cpp_rational(-floor_of(-first));
    if (name == "gcd") {
      cpp_int out = 0;
      for (const cpp_rational& value : values) {
        if (!is_integer(value)) return problem("gcd needs integers");
        out = gcd(out, numerator(value));
      }
      return cpp_rational(out);
    }
    if (name == "round") {
      cpp_rational places = values.size() > 1 ? values[1] : cpp_rational(0);
      if (!is_integer(places) || places < 0 || places > kMaxDecimals)
        return problem("round(x, n) needs n from 0 to 60");
      const cpp_int scale = power_of_ten(numerator(places).convert_to<unsigned>());
      const cpp_rational size = first < 0 ? cpp_rational(-first) : first;
      const cpp_rational out(floor_of(size * scale + cpp_rational(1, 2)), scale);
      return first < 0 ? cpp_rational(-out) : out;
    }
    if (first < 0) return problem("sqrt of a negative number");
    const cpp_int top = sqrt(numerator(first)), bottom = sqrt(denominator(first));
    if (top * top == numerator(first) && bottom * bottom == denominator(first))
      return cpp_rational(top, bottom);
    inexact_ = true;
    const cpp_int scale = power_of_ten(kRootDigits);
    return cpp_rational(sqrt(floor_of(first * scale * scale)), scale);
  }

  std::string_view text_;
  size_t at_ = 0;
  int arguments_ = 0;  // inside a call, a comma separates arguments
  bool inexact_ = false;
};

}  // namespace

Result<std::string> calculate(std::string_view expression) {
  if (expression.size() > kMaxExpressionBytes)
    return error_of(Error::Kind::kLimit, "expression", "has {} characters; at most {} are allowed",
                    expression.size(), kMaxExpressionBytes);
  return Parser(expression).run();
}

}  // namespace makar
