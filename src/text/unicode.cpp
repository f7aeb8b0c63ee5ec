#include "text/unicode.h"

#include <utf8proc.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace makar {
namespace {

// Categories in pages of 256 code points; equal pages are shared (about 60 KB in all).
struct CategoryPages {
  std::array<uint16_t, 0x1100> page_of{};
  std::vector<std::array<uint8_t, 256>> pages;
  CategoryPages() {
    std::map<std::array<uint8_t, 256>, uint16_t> page_numbers;
    for (uint32_t high = 0; high < 0x1100; ++high) {
      std::array<uint8_t, 256> values;
      for (uint32_t low = 0; low < 256; ++low)
        values[low] = static_cast<uint8_t>(utf8proc_category(static_cast<utf8proc_int32_t>(high << 8 | low)));
      const auto [it, fresh] = page_numbers.emplace(values, static_cast<uint16_t>(pages.size()));
      if (fresh) pages.push_back(values);
      page_of[high] = it->second;
    }
  }
};

const CategoryPages& category_pages() {
  static const CategoryPages pages;
  return pages;
}

}  // namespace

Category category(char32_t code) {
  static const CategoryPages& pages = category_pages();
  if (code > 0x10FFFF) return Category::kCn;
  return static_cast<Category>(pages.pages[pages.page_of[code >> 8]][code & 0xFF]);
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || in(c, detail::mask({Category::kZs, Category::kZl, Category::kZp}));
}

bool is_word(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  if (in(c, kLetter | kMark | detail::mask({Category::kNd, Category::kNl, Category::kPc}))) return true;
  // Other_Alphabetic symbols (circled and squared letters) and Join_Control.
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool is_ascii_punctuation(char32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
}

std::u32string lowercase(char32_t code) {
  if (code == 0x130) return U"i\u0307";  // the only lower case with two code points
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)))};
}

int combining_class(char32_t code) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
}

}  // namespace makar
