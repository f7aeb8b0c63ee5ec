#include "apps/sql_value.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <regex>

#include "base/sha256.h"

namespace makar {
namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53: all integers below are doubles

void add(std::string& row, char type, std::string_view value) {
  fmt::format_to(std::back_inserter(row), "{}{} {} ", type, value.size(), value);
}

bool is_printed_number(std::string_view text) {
  static const std::regex number("-?(0|[1-9][0-9]{0,40})([.][0-9]{1,400})?(e[+-][0-9]{1,3})?");
  return text.size() <= 450 && std::regex_match(text.begin(), text.end(), number);
}

}  // namespace

void add_null_key(std::string& row) { add(row, 'z', ""); }

void add_integer_key(std::string& row, int64_t value) { add(row, 'n', std::to_string(value)); }

void add_real_key(std::string& row, double value) {
  if (std::abs(value) < kExactIntegers && value == std::trunc(value))
    return add_integer_key(row, static_cast<int64_t>(value));
  add(row, 'n', fmt::format("{:.12g}", value));
}

void add_text_key(std::string& row, std::string_view bytes) {
  add(row, 't', bytes.size() <= 64 ? std::string(bytes) : sha256_of(bytes));
}

void add_blob_key(std::string& row, std::string_view bytes) { add(row, 'b', sha256_of(bytes)); }

void add_printed_key(std::string& row, std::string_view bytes) {
  if (!is_printed_number(bytes)) return add_text_key(row, bytes);
  int64_t integer = 0;
  const char* const last = bytes.data() + bytes.size();
  if (const auto [end, code] = std::from_chars(bytes.data(), last, integer);
      code == std::errc() && end == last)
    return add_integer_key(row, integer);
  if (bytes.find_first_of(".e") == bytes.npos) return add(row, 'n', bytes);  // beyond 64 bits
  double real = 0;
  std::from_chars(bytes.data(), last, real);
  add_real_key(row, real);
}

}  // namespace makar
