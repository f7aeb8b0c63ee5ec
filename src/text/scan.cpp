#include "text/scan.h"

#include <map>

#include "text/pre_tokenizer.h"
#include "text/read/patterns.h"

namespace makar {

const CharClasses& CharClasses::get() {
  static const CharClasses classes = [] {
    CharClasses out;
    out.page_of.resize(0x1100);
    std::map<std::array<uint8_t, 256>, uint16_t> page_numbers;
    for (uint32_t high = 0; high < 0x1100; ++high) {
      std::array<uint8_t, 256> page{};
      for (uint32_t low = 0; low < 256; ++low) {
        const char32_t c = high << 8 | low;
        uint8_t bits = 0;
        if (in(c, kLetter)) bits |= kIsLetter;
        if (in(c, kNumber)) bits |= kIsNumber;
        if (is_space(c)) bits |= kIsSpace;
        if (in(c, detail::mask({Category::kLu, Category::kLt}))) bits |= kIsUpper;
        if (category(c) == Category::kLl) bits |= kIsLower;
        if (in(c, kMark | detail::mask({Category::kLm, Category::kLo}))) bits |= kIsCaseless;
        if (c == '\r' || c == '\n') bits |= kIsBreak;
        page[low] = bits;
      }
      const auto [it, fresh] = page_numbers.emplace(page, static_cast<uint16_t>(out.pages.size()));
      if (fresh) out.pages.push_back(page);
      out.page_of[high] = it->second;
    }
    for (int b = 0; b < 128; ++b) out.ascii[b] = out.of(static_cast<char32_t>(b));
    return out;
  }();
  return classes;
}

Scanner::Kind Scanner::kind_of(const std::string& pattern) {
  if (pattern == kGpt2Pattern) return Kind::kGpt2;
  if (pattern == kCl100kPattern) return Kind::kCl100k;
  if (pattern == kQwen2Pattern) return Kind::kQwen2;
  if (pattern == kO200kPattern) return Kind::kO200k;
  return Kind::kNone;
}

}  // namespace makar
