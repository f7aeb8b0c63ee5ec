// The pickle instructions for numbers and texts.
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "formats/pickle_machine.h"

namespace makar {

bool PickleMachine::has(uint64_t n) const { return n <= bytes_.size() - at_; }

Status PickleMachine::skip(size_t n) {
  return has(n) ? (at_ += n, Status(Done{})) : broken("the pickle ends early");
}

Result<uint64_t> PickleMachine::number(size_t n) {
  if (!has(n)) return broken("the pickle ends early");
  uint64_t v = 0;
  std::memcpy(&v, bytes_.data() + at_, n);
  at_ += n;
  return v;
}

Result<std::string> PickleMachine::bytes(uint64_t n) {
  if (!has(n)) return broken("a text extends past the end");
  std::string s(reinterpret_cast<const char*>(bytes_.data() + at_), n);
  at_ += n;
  return s;
}

Result<std::string> PickleMachine::line() {
  const auto* start = reinterpret_cast<const char*>(bytes_.data()) + at_;
  const auto* end = static_cast<const char*>(std::memchr(start, '\n', bytes_.size() - at_));
  if (!end) return broken("a line has no end");
  at_ += static_cast<size_t>(end - start) + 1;
  return std::string(start, end);
}

Status PickleMachine::decimal() {
  MAKAR_TRY(std::string s, line());
  if (s.ends_with('L')) s.pop_back();
  if (s == "00" || s == "01") return push(integer(s == "01", Kind::kBool));
  char* end = nullptr;
  errno = 0;
  const long long v = std::strtoll(s.c_str(), &end, 10);
  if (s.empty() || *end || errno) return broken("a number is not a 64-bit integer");
  return push(integer(v));
}

Status PickleMachine::float_value(double v) {
  PickleValue out;
  out.kind = Kind::kFloat, out.number = v;
  return push(std::move(out));
}

Status PickleMachine::decimal_float() {
  MAKAR_TRY(const std::string s, line());
  return float_value(std::strtod(s.c_str(), nullptr));
}

Status PickleMachine::big_endian_float() {
  MAKAR_TRY(const uint64_t v, number(8));
  return float_value(std::bit_cast<double>(__builtin_bswap64(v)));
}

Status PickleMachine::long_integer(size_t length_bytes) {
  MAKAR_TRY(const uint64_t n, number(length_bytes));
  MAKAR_TRY(const std::string s, bytes(n));
  if (n > 8) return push(with_text(Kind::kBigInteger, s));
  int64_t v = 0;
  std::memcpy(&v, s.data(), n);
  if (n > 0 && n < 8 && (s.back() & 0x80)) v -= int64_t{1} << (8 * n);
  return push(integer(v));
}

Status PickleMachine::text(size_t length_bytes) {
  MAKAR_TRY(const uint64_t n, number(length_bytes));
  MAKAR_TRY(std::string s, bytes(n));
  return push(with_text(Kind::kText, std::move(s)));
}

Status PickleMachine::text_line() {
  MAKAR_TRY(std::string s, line());
  if (s.size() >= 2 && (s[0] == '\'' || s[0] == '"') && s.back() == s[0]) s = s.substr(1, s.size() - 2);
  return push(with_text(Kind::kText, std::move(s)));
}

}  // namespace makar
