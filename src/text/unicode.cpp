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
  std::array<uint16_t, 0x1100> page{};
  std::vector<std::array<uint8_t, 256>> pages;
  CategoryPages() {
    std::map<std::array<uint8_t, 256>, uint16_t> seen;
    for (uint32_t high = 0; high < 0x1100; ++high) {
      std::array<uint8_t, 256> one;
      for (uint32_t low = 0; low < 256; ++low)
        one[low] = static_cast<uint8_t>(utf8proc_category(static_cast<utf8proc_int32_t>(high << 8 | low)));
      const auto [it, fresh] = seen.emplace(one, static_cast<uint16_t>(pages.size()));
      if (fresh) pages.push_back(one);
      page[high] = it->second;
    }
  }
};

const CategoryPages& category_pages() {
  static const CategoryPages pages;
  return pages;
}

bool continuation(unsigned char c) { return (c & 0xC0) == 0x80; }

}  // namespace

CodePoint decode_utf8_multibyte(const char* at, const char* end) {
  const auto* p = reinterpret_cast<const unsigned char*>(at);
  const ptrdiff_t left = end - at;
  const unsigned char a = p[0];
  if (a < 0xC2 || a > 0xF4) return {kReplacement, 1, false};
  if (left < 2) return {kReplacement, 1, false};
  if (a < 0xE0)
    return continuation(p[1]) ? CodePoint{static_cast<char32_t>((a & 0x1F) << 6 | (p[1] & 0x3F)), 2, true}
                              : CodePoint{kReplacement, 1, false};
  // The second byte bounds overlong forms, surrogates and values above U+10FFFF.
  const unsigned char low = a == 0xE0 ? 0xA0 : a == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = a == 0xED ? 0x9F : a == 0xF4 ? 0x8F : 0xBF;
  if (p[1] < low || p[1] > high) return {kReplacement, 1, false};
  if (left < 3 || !continuation(p[2])) return {kReplacement, 2, false};
  if (a < 0xF0)
    return {static_cast<char32_t>((a & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F)), 3, true};
  if (left < 4 || !continuation(p[3])) return {kReplacement, 3, false};
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
  for (const char c : text) count += !continuation(static_cast<unsigned char>(c));
  return count;
}

bool is_ascii(std::string_view text) {
  const char* p = text.data();
  size_t left = text.size();
  uint64_t seen = 0;
  for (; left >= 8; p += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    seen |= word;
  }
  for (; left > 0; ++p, --left) seen |= static_cast<unsigned char>(*p);
  return (seen & 0x8080808080808080u) == 0;
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
  // Only the last three bytes can begin a character that is not yet complete.
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const size_t at = text.size() - back;
    const auto c = static_cast<unsigned char>(text[at]);
    if (continuation(c)) continue;
    if (c < 0x80) return text.size();
    const CodePoint last = decode_utf8(text, at);
    const bool may_continue = !last.ok && last.size == back && c >= 0xC2 && c <= 0xF4 && utf8_size(c) > back;
    return may_continue ? at : text.size();
  }
  return text.size();
}

std::string escape_bytes(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (c.ok)
      out.append(text, at, c.size);
    else
      for (uint32_t i = 0; i < c.size; ++i)
        append_utf8(out, 0xDC00 + static_cast<unsigned char>(text[at + i]));
    at += c.size;
  }
  return out;
}

Category category(char32_t code) {
  static const CategoryPages& pages = category_pages();
  if (code > 0x10FFFF) return Category::kCn;
  return static_cast<Category>(pages.pages[pages.page[code >> 8]][code & 0xFF]);
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
  if (code == 0x130) return U"i\u0307";  // the only lower case of two code points
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)))};
}

int combining_class(char32_t code) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
}

}  // namespace makar
