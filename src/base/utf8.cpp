#include "base/utf8.h"

#include <cstring>

namespace makar {

CodePoint decode_utf8_multibyte(const char* at, const char* end) {
  const auto* p = reinterpret_cast<const unsigned char*>(at);
  const ptrdiff_t left = end - at;
  const unsigned char a = p[0];
  if (a < 0xC2 || a > 0xF4) return {kReplacement, 1, false};
  if (left < 2) return {kReplacement, 1, false};
  if (a < 0xE0)
    return is_utf8_continuation(static_cast<char>(p[1]))
               ? CodePoint{static_cast<char32_t>((a & 0x1F) << 6 | (p[1] & 0x3F)), 2, true}
               : CodePoint{kReplacement, 1, false};
  // The bounds of the second byte exclude overlong forms, surrogates and values above U+10FFFF.
  const unsigned char low = a == 0xE0 ? 0xA0 : a == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = a == 0xED ? 0x9F : a == 0xF4 ? 0x8F : 0xBF;
  if (p[1] < low || p[1] > high) return {kReplacement, 1, false};
  if (left < 3 || !is_utf8_continuation(static_cast<char>(p[2]))) return {kReplacement, 2, false};
  if (a < 0xF0)
    return {static_cast<char32_t>((a & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F)), 3, true};
  if (left < 4 || !is_utf8_continuation(static_cast<char>(p[3]))) return {kReplacement, 3, false};
  return {static_cast<char32_t>((a & 0x07) << 18 | (p[1] & 0x3F) << 12 | (p[2] & 0x3F) << 6 | (p[3] & 0x3F)),
          4, true};
}

void append_utf8(std::string& out, char32_t c) {
  const auto byte = [&](uint32_t b) { out.push_back(static_cast<char>(b)); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) return byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F));
  if (c < 0x10000) return byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F));
  byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F));
}

std::string utf8(char32_t code) {
  std::string out;
  append_utf8(out, code);
  return out;
}

std::u32string code_points(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    out.push_back(c.code);
    at += c.size;
  }
  return out;
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += !is_utf8_continuation(c);
  return count;
}

bool is_ascii(std::string_view text) {
  const char* p = text.data();
  size_t left = text.size();
  uint64_t all_bits = 0;
  for (; left >= 8; p += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    all_bits |= word;
  }
  for (; left > 0; ++p, --left) all_bits |= static_cast<unsigned char>(*p);
  return (all_bits & 0x8080808080808080u) == 0;
}

bool is_valid_utf8(std::string_view text) {
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    uint64_t word;
    if (end - p >= 8 && (std::memcpy(&word, p, 8), (word & 0x8080808080808080u) == 0)) {
      p += 8;
      continue;
    }
    const CodePoint c = decode_utf8(p, end);
    if (!c.ok) return false;
    p += c.size;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  if (is_valid_utf8(text)) return std::string(text);
  std::string out;
  out.reserve(text.size() + 16);
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (c.ok)
      out.append(text, at, c.size);
    else
      append_utf8(out, kReplacement);
    at += c.size;
  }
  return out;
}

size_t complete_utf8_prefix(std::string_view text) {
  // Only the last three bytes can start an incomplete character.
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const size_t at = text.size() - back;
    if (is_utf8_continuation(text[at])) continue;
    const auto c = static_cast<unsigned char>(text[at]);
    if (c < 0x80) return text.size();
    const CodePoint last = decode_utf8(text, at);
    const bool may_continue =
        !last.ok && last.size == back && c >= 0xC2 && c <= 0xF4 && utf8_size(text[at]) > back;
    return may_continue ? at : text.size();
  }
  return text.size();
}

}  // namespace makar
