// Decimal numbers within bounds as expressions over digits: the integer part is compared as an integer; if it
// equals that of a bound, the digits of the fraction are compared one by one.
#include <fmt/format.h>

#include <cmath>

#include "infer/grammar/json_text.h"

namespace makar::grammar {
namespace {

constexpr int64_t kMaxFractionDigits = 16;  // maximum digits after the decimal point

// The magnitude of a bound; its fraction has no trailing zeros.
struct Decimal {
  int64_t integer = 0;
  std::string fraction;
  bool open = false;  // exclusive
};

std::optional<Decimal> decimal(double magnitude, bool open) {
  const std::string text = fmt::format("{}", magnitude);
  if (text.find('e') != std::string::npos || magnitude > 1e15) return {};
  const size_t dot = text.find('.');
  Decimal out{std::stoll(text), dot == std::string::npos ? "" : text.substr(dot + 1), open};
  while (!out.fraction.empty() && out.fraction.back() == '0') out.fraction.pop_back();
  return out;
}

ExprPtr decimal_digits(int64_t min) { return repeat(digit('0', '9'), min, kMaxFractionDigits); }
ExprPtr zeros(int64_t min) { return repeat(digit('0', '0'), min, kMaxFractionDigits); }

using Bound = const Decimal*;  // null: no bound applies any more

// The digits from index i on, if all earlier digits equal those of the bounds.
ExprPtr fraction_rest(size_t i, Bound low, Bound high) {
  const int64_t digits = i == 0 ? 1 : 0;  // a decimal point needs a digit after it
  if (!low && !high) return decimal_digits(digits);
  const bool low_done = !low || i >= low->fraction.size(), high_done = !high || i >= high->fraction.size();
  if (low_done && high_done) {
    if (high) return high->open || (low && low->open) ? choice({}) : zeros(digits);
    return low->open ? sequence({zeros(0), digit('1', '9'), decimal_digits(0)}) : decimal_digits(digits);
  }
  std::vector<ExprPtr> alternatives;
  const bool at_low = low && low_done && !low->open, below_high = high && (!high_done || !high->open);
  if (i > 0 && (!low || at_low) && (!high || below_high)) alternatives.push_back(literal(""));
  const char a = !low       ? '0'
                 : low_done ? '0'
                            : low->fraction[i],
             b = !high       ? '9'
                 : high_done ? '0'
                             : high->fraction[i];
  for (char d = a; d <= b; ++d)
    alternatives.push_back(
        sequence({digit(d, d), fraction_rest(i + 1, d == a ? low : nullptr, d == b ? high : nullptr)}));
  return choice(std::move(alternatives));
}

ExprPtr any_fraction() { return optional(sequence({literal("."), decimal_digits(1)})); }

// One integer part with the fractions that fit.
ExprPtr with_fraction(int64_t integer, Bound low, Bound high) {
  std::vector<ExprPtr> alternatives = {sequence({literal("."), fraction_rest(0, low, high)})};
  const bool low_fits = !low || (low->fraction.empty() && !low->open);
  const bool high_fits = !high || !high->fraction.empty() || !high->open;
  if (low_fits && high_fits) alternatives.push_back(literal(""));
  return sequence({literal(std::to_string(integer)), choice(std::move(alternatives))});
}

ExprPtr magnitude(Bound low, Bound high) {
  if (low && high && low->integer == high->integer) return with_fraction(low->integer, low, high);
  std::vector<ExprPtr> alternatives;
  if (low) alternatives.push_back(with_fraction(low->integer, low, nullptr));
  if (high) alternatives.push_back(with_fraction(high->integer, nullptr, high));
  const int64_t from = low ? low->integer + 1 : 0;
  if (!high || from < high->integer)
    alternatives.push_back(sequence({natural_between(from, high ? high->integer - 1 : -1), any_fraction()}));
  return choice(std::move(alternatives));
}

}  // namespace

ExprPtr number_between(const std::optional<NumberBound>& low, const std::optional<NumberBound>& high) {
  std::optional<Decimal> bottom, top;
  if (low && !(bottom = decimal(std::fabs(low->value), low->open))) return nullptr;
  if (high && !(top = decimal(std::fabs(high->value), high->open))) return nullptr;
  if (low && high && (low->value > high->value || (low->value == high->value && (low->open || high->open))))
    return choice({});
  const auto bound_if = [](const std::optional<Decimal>& d, bool use) { return d && use ? &*d : nullptr; };
  std::vector<ExprPtr> alternatives;
  if (!high || high->value >= 0)
    alternatives.push_back(magnitude(bound_if(bottom, low && low->value >= 0), bound_if(top, true)));
  if (!low || low->value < 0)
    alternatives.push_back(sequence(
        {literal("-"), magnitude(bound_if(top, high && (high->value < 0 || (high->value == 0 && high->open))),
                                 bound_if(bottom, true))}));
  return choice(std::move(alternatives));
}

}  // namespace makar::grammar
