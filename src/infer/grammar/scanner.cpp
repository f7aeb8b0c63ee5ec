#include "infer/grammar/scanner.h"

namespace makar::grammar {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<uint32_t> Scanner::hex(int count) {
  uint32_t value = 0;
  int digits_read = 0;
  for (; digit_of(peek()) >= 0 && digits_read < (count == 0 ? 6 : count); ++digits_read, ++at_)
    value = value * 16 + static_cast<uint32_t>(digit_of(peek()));
  if (digits_read == 0 || (count != 0 && digits_read < count))
    return error("expected {} hexadecimal digits", count == 0 ? 1 : count);
  if (value > kMaxCodePoint || (value >= 0xD800 && value < 0xE000))
    return error("{:#x} is not a Unicode code point", value);
  return value;
}

Result<uint32_t> Scanner::escape() {
  if (done()) return error("a backslash ends the text");
  const char c = peek();
  const auto hex_code = [&](int digits) -> Result<uint32_t> {
    skip();
    if (digits == 8 || !take("{")) return hex(digits);
    MAKAR_TRY(const uint32_t value, hex(0));
    if (!take("}")) return error("expected '}}' after hexadecimal digits");
    return value;
  };
  const std::string_view letters = "nrtfv0", meanings("\n\r\t\f\v\0", 6);
  if (const size_t i = letters.find(c); i != std::string_view::npos) {
    skip();
    return static_cast<uint32_t>(meanings[i]);
  }
  if (c == 'x') return hex_code(2);
  if (c == 'u') return hex_code(4);
  if (c == 'U') return hex_code(8);
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
    return error("\\{} is not a supported escape", c);
  return code_point();
}

Result<int64_t> Scanner::number() {
  int64_t value = 0;
  const size_t from = at_;
  for (; peek() >= '0' && peek() <= '9'; ++at_) {
    value = value * 10 + (peek() - '0');
    if (value > 1'000'000) return error("counts above 1000000 are not supported");
  }
  if (from == at_) return error("expected a number");
  return value;
}

Result<Scanner::Count> Scanner::count() {
  Count c{0, 0};
  if (peek() != ',') {
    MAKAR_TRY(c.min, number());
  }
  c.max = c.min;
  if (take(",")) {
    c.max = -1;
    if (peek() != '}') {
      MAKAR_TRY(c.max, number());
    }
  }
  if (!take("}")) return error("expected '}}' after a count");
  if (c.max >= 0 && c.max < c.min)
    return error("the maximum of {{{},{}}} is below its minimum", c.min, c.max);
  return c;
}

}  // namespace makar::grammar
