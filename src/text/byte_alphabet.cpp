#include "text/byte_alphabet.h"

#include <array>
#include <charconv>

namespace makar {
namespace {

struct Alphabet {
  std::array<char32_t, 256> letter{};
  std::array<int16_t, 512> byte{};
  Alphabet() {
    byte.fill(-1);
    char32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      letter[b] = printable ? static_cast<char32_t>(b) : next++;
      byte[letter[b]] = static_cast<int16_t>(b);
    }
  }
};
const Alphabet& alphabet() {
  static const Alphabet a;
  return a;
}

}  // namespace

char32_t byte_to_letter(unsigned char byte) { return alphabet().letter[byte]; }

std::optional<unsigned char> letter_to_byte(char32_t letter) {
  if (letter >= 512 || alphabet().byte[letter] < 0) return std::nullopt;
  return static_cast<unsigned char>(alphabet().byte[letter]);
}

std::optional<std::string> letters_to_bytes(std::string_view letters) {
  std::string out;
  out.reserve(letters.size());
  for (size_t at = 0; at < letters.size();) {
    const CodePoint c = decode_utf8(letters, at);
    const auto byte = letter_to_byte(c.code);
    if (!c.ok || !byte) return std::nullopt;
    out.push_back(static_cast<char>(*byte));
    at += c.size;
  }
  return out;
}

std::string bytes_to_letters(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char b : bytes) append_utf8(out, byte_to_letter(static_cast<unsigned char>(b)));
  return out;
}

void to_byte_alphabet(AlignedText& text) {
  const std::string s = text.text();
  Rewriter out(text);
  for (size_t at = 0; at < s.size();) {
    const size_t from = at;
    const char32_t code = next_code(s, at);
    if (is_escaped_byte(code)) {
      out.put(byte_to_letter(static_cast<unsigned char>(code - 0xDC00)), 0);
      continue;
    }
    for (size_t i = from; i < at; ++i) out.put(byte_to_letter(static_cast<unsigned char>(s[i])), i > from);
  }
  out.finish();
}

std::optional<unsigned char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, code] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (code != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<unsigned char>(value);
}

}  // namespace makar
