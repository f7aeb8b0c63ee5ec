// Integers within bounds as expressions over digits.
#include <string>

#include "infer/grammar/json_text.h"

namespace makar::grammar {
namespace {

constexpr int64_t kMaxDigits = 16;  // maximum length of an integer without an upper bound

ExprPtr any_digits(size_t count) {
  return repeat(digit('0', '9'), static_cast<int64_t>(count), static_cast<int64_t>(count));
}

// Digits from index `at` on that are >= (or, for `upper`, <=) those of `bound`.
ExprPtr beyond(const std::string& bound, size_t at, bool upper) {
  if (at == bound.size()) return literal("");
  const char c = bound[at];
  std::vector<ExprPtr> alternatives = {sequence({digit(c, c), beyond(bound, at + 1, upper)})};
  const ExprPtr rest = any_digits(bound.size() - at - 1);
  if (upper && c > '0') alternatives.push_back(sequence({digit('0', static_cast<char>(c - 1)), rest}));
  if (!upper && c < '9') alternatives.push_back(sequence({digit(static_cast<char>(c + 1), '9'), rest}));
  return choice(std::move(alternatives));
}

// Numbers with the same number of digits.
ExprPtr between(const std::string& low, const std::string& high, size_t at) {
  if (at == low.size()) return literal("");
  if (low[at] == high[at]) return sequence({digit(low[at], low[at]), between(low, high, at + 1)});
  std::vector<ExprPtr> alternatives = {sequence({digit(low[at], low[at]), beyond(low, at + 1, false)}),
                                       sequence({digit(high[at], high[at]), beyond(high, at + 1, true)})};
  if (high[at] - low[at] > 1)
    alternatives.push_back(sequence({digit(static_cast<char>(low[at] + 1), static_cast<char>(high[at] - 1)),
                                     any_digits(low.size() - at - 1)}));
  return choice(std::move(alternatives));
}

}  // namespace

ExprPtr digit(char low, char high) {
  return character({{static_cast<uint32_t>(low), static_cast<uint32_t>(high)}});
}

ExprPtr natural_between(int64_t low, int64_t high) {
  const std::string from = std::to_string(low), to = high < 0 ? "" : std::to_string(high);
  std::vector<ExprPtr> alternatives;
  const size_t last = high < 0 ? from.size() : to.size();
  for (size_t length = from.size(); length <= last; ++length) {
    const std::string min = length == from.size() ? from : "1" + std::string(length - 1, '0');
    alternatives.push_back(between(min, high >= 0 && length == to.size() ? to : std::string(length, '9'), 0));
  }
  const int64_t longest = static_cast<int64_t>(last);
  if (high < 0 && longest < kMaxDigits)
    alternatives.push_back(sequence({digit('1', '9'), repeat(digit('0', '9'), longest, kMaxDigits - 1)}));
  return choice(std::move(alternatives));
}

ExprPtr integer_between(std::optional<int64_t> low, std::optional<int64_t> high) {
  std::vector<ExprPtr> alternatives;
  if (!high || *high >= 0)
    alternatives.push_back(natural_between(low ? std::max<int64_t>(*low, 0) : 0, high ? *high : -1));
  if (!low || *low < 0)  // mirrored; zero has no sign
    alternatives.push_back(
        sequence({literal("-"), natural_between(high && *high < 0 ? -*high : 1, low ? -*low : -1)}));
  if (low && high && *low > *high) alternatives.clear();
  return choice(std::move(alternatives));
}

}  // namespace makar::grammar
