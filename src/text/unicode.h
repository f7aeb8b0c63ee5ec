// The Unicode character database (from utf8proc, whose tables are packed into one page table).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace makar {

// SentencePiece's mark for a blank.
constexpr std::string_view kBlankMark = "\u2581";

// Invalid bytes pass through a byte-level pipeline as U+DC00 + byte, encoded in three bytes: such surrogates
// do not occur in valid text, so the conversion is reversible.
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
// Whether the category of a code point is in the mask.
inline bool in(char32_t code, CategoryMask m) { return m >> static_cast<int>(category(code)) & 1; }

bool is_space(char32_t code);  // White_Space
bool is_word(char32_t code);   // \w: Alphabetic, marks, decimal digits, connectors, joiners
bool is_ascii_punctuation(char32_t code);
std::u32string lowercase(char32_t code);  // full mapping without context
int combining_class(char32_t code);
enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

}  // namespace makar
