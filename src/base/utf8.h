// UTF-8: decoding, encoding, stepping through characters, validation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace makar {

// One decoded code point. An invalid sequence gives U+FFFD, `ok` false, and the length of its maximal valid
// prefix (at least one byte), the replacement rule of WHATWG and Rust.
struct CodePoint {
  char32_t code;
  uint32_t size;
  bool ok;
};

constexpr char32_t kReplacement = 0xFFFD;

CodePoint decode_utf8_multibyte(const char* at, const char* end);
inline CodePoint decode_utf8(const char* at, const char* end) {
  const auto first = static_cast<unsigned char>(*at);
  if (first < 0x80) return {first, 1, true};
  return decode_utf8_multibyte(at, end);
}
inline CodePoint decode_utf8(std::string_view text, size_t at = 0) {
  return decode_utf8(text.data() + at, text.data() + text.size());
}
// The code point at `at` of text known to be valid; encoded surrogates pass through (see is_escaped_byte in
// text/unicode.h).
inline char32_t next_code(std::string_view text, size_t& at) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data()) + at;
  if (p[0] < 0x80) return at += 1, p[0];
  if (p[0] < 0xE0) return at += 2, static_cast<char32_t>((p[0] & 0x1F) << 6 | (p[1] & 0x3F));
  if (p[0] < 0xF0)
    return at += 3, static_cast<char32_t>((p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F));
  return at += 4, static_cast<char32_t>((p[0] & 0x07) << 18 | (p[1] & 0x3F) << 12 | (p[2] & 0x3F) << 6 |
                                        (p[3] & 0x3F));
}
// The size of a character by its first byte, in text known to be valid.
inline uint32_t utf8_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
// Whether the byte continues a character (10xxxxxx).
inline bool is_utf8_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

void append_utf8(std::string& out, char32_t code);
std::string utf8(char32_t code);
std::u32string code_points(std::string_view text);  // invalid parts become U+FFFD
size_t count_code_points(std::string_view text);    // of valid text
bool is_ascii(std::string_view text);
bool is_valid_utf8(std::string_view text);
std::string to_valid_utf8(std::string_view text);  // invalid parts become U+FFFD
// The length of the longest prefix that does not end inside a character; for streams.
size_t complete_utf8_prefix(std::string_view text);

}  // namespace makar
