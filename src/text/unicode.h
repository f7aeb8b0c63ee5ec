// UTF-8 and the Unicode character database (through utf8proc, whose tables are packed here into one page
// table).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace makar {

// One step of decoding. A malformed sequence gives U+FFFD, `ok` false, and the length of its maximal valid
// prefix (at least one byte), which is how the WHATWG standard and Rust replace it.
struct CodePoint {
  char32_t code;
  uint32_t size;
  bool ok;
};

constexpr char32_t kReplacement = 0xFFFD;
// What SentencePiece writes for a blank.
constexpr std::string_view kBlankMark = "\u2581";

CodePoint decode_utf8_multibyte(const char* at, const char* end);
inline CodePoint decode_utf8(const char* at, const char* end) {
  const auto first = static_cast<unsigned char>(*at);
  if (first < 0x80) return {first, 1, true};
  return decode_utf8_multibyte(at, end);
}
inline CodePoint decode_utf8(std::string_view text, size_t at = 0) {
  return decode_utf8(text.data() + at, text.data() + text.size());
}
// The code point at `at` of text known to be well-formed; encoded surrogates pass through (see ByteEscape).
inline char32_t next_code(std::string_view text, size_t& at) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data()) + at;
  if (p[0] < 0x80) return at += 1, p[0];
  if (p[0] < 0xE0) return at += 2, static_cast<char32_t>((p[0] & 0x1F) << 6 | (p[1] & 0x3F));
  if (p[0] < 0xF0)
    return at += 3, static_cast<char32_t>((p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F));
  return at += 4, static_cast<char32_t>((p[0] & 0x07) << 18 | (p[1] & 0x3F) << 12 | (p[2] & 0x3F) << 6 |
                                        (p[3] & 0x3F));
}
inline uint32_t utf8_size(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

void append_utf8(std::string& out, char32_t code);
std::string utf8(char32_t code);
std::u32string code_points(std::string_view text);  // malformed parts become U+FFFD
size_t count_code_points(std::string_view text);    // of well-formed text
bool is_ascii(std::string_view text);
bool is_valid_utf8(std::string_view text);
std::string to_valid_utf8(std::string_view text);  // malformed parts become U+FFFD
// The length of the longest prefix that does not end inside a character; for streams.
size_t complete_utf8_prefix(std::string_view text);

// Bytes that are not UTF-8 travel through a byte-level pipeline as U+DC00 + byte, encoded in three bytes:
// such surrogates cannot occur in well-formed text, so the way back is exact.
std::string escape_bytes(std::string_view text);
inline bool is_escaped_byte(char32_t code) { return code >= 0xDC80 && code <= 0xDCFF; }

// General categories in utf8proc's order.
enum class Category : uint8_t {
  kCn,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo,
};
Category category(char32_t code);

namespace detail {
constexpr uint32_t mask(std::initializer_list<Category> list) {
  uint32_t m = 0;
  for (const Category c : list) m |= 1u << static_cast<int>(c);
  return m;
}
}  // namespace detail
using CategoryMask = uint32_t;
constexpr CategoryMask kLetter =
    detail::mask({Category::kLu, Category::kLl, Category::kLt, Category::kLm, Category::kLo});
constexpr CategoryMask kMark = detail::mask({Category::kMn, Category::kMc, Category::kMe});
constexpr CategoryMask kNumber = detail::mask({Category::kNd, Category::kNl, Category::kNo});
constexpr CategoryMask kPunctuation =
    detail::mask({Category::kPc, Category::kPd, Category::kPs, Category::kPe, Category::kPi, Category::kPf,
                  Category::kPo});
constexpr CategoryMask kSymbol = detail::mask({Category::kSm, Category::kSc, Category::kSk, Category::kSo});
inline bool in(char32_t code, CategoryMask m) { return m >> static_cast<int>(category(code)) & 1; }

bool is_space(char32_t code);  // White_Space
bool is_word(char32_t code);   // \w: Alphabetic, marks, decimal digits, connectors, joiners
bool is_ascii_punctuation(char32_t code);
std::u32string lowercase(char32_t code);  // full mapping without context
int combining_class(char32_t code);
enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

}  // namespace makar
