#include "text/normal_form.h"

#include <utf8proc.h>

#include <algorithm>

namespace makar {
namespace {

struct Item {
  char32_t code;
  int change;
  int ccc;
};

// 0 when the pair does not compose.
char32_t compose(char32_t a, char32_t b) {
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(a), static_cast<utf8proc_int32_t>(b)};
  const auto composed_size =
      utf8proc_normalize_utf32(pair, 2, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  return composed_size == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

std::vector<Item> decompose(std::string_view text, bool compatible) {
  const auto options =
      static_cast<utf8proc_option_t>(compatible ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE);
  std::vector<Item> items;
  items.reserve(text.size());
  size_t ordered = 0;  // items before this are in canonical order
  const auto order_until = [&](size_t end) {
    std::stable_sort(items.begin() + ordered, items.begin() + end,
                     [](const Item& a, const Item& b) { return a.ccc < b.ccc; });
    ordered = end;
  };
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code(text, at);
    utf8proc_int32_t parts[32];
    int last_boundclass = 0;
    auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, 32, options, &last_boundclass);
    if (count <= 0 || count > 32) parts[0] = static_cast<utf8proc_int32_t>(code), count = 1;
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto part = static_cast<char32_t>(parts[i]);
      const int ccc = part < 0x300 ? 0 : combining_class(part);
      if (ccc == 0) order_until(items.size());
      items.push_back({part, i > 0, ccc});
      if (ccc == 0) ordered = items.size();
    }
  }
  order_until(items.size());
  return items;
}

// Canonical composition: each mark composes with the last starter unless a mark of the same or a higher
// combining class is in between.
void recompose(std::vector<Item>& items) {
  size_t out = 0;
  size_t starter = SIZE_MAX;
  int last_ccc = -1;  // -1: nothing between the starter and here
  for (size_t i = 0; i < items.size(); ++i) {
    const Item item = items[i];
    if (starter != SIZE_MAX && (last_ccc < item.ccc) && (last_ccc == -1 || item.ccc != 0)) {
      if (const char32_t joined = compose(items[starter].code, item.code)) {
        items[starter].code = joined;
        items[starter].change += item.change - 1;
        continue;
      }
    }
    if (item.ccc == 0) {
      starter = out;
      last_ccc = -1;
    } else if (starter != SIZE_MAX) {
      last_ccc = item.ccc;
    }
    items[out++] = item;
  }
  items.resize(out);
}

}  // namespace

std::vector<NormalizedChar> normal_form(std::string_view text, NormalForm form) {
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  std::vector<Item> items = decompose(text, compatible);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) recompose(items);
  std::vector<NormalizedChar> out;
  out.reserve(items.size());
  for (const Item& item : items) out.push_back({item.code, item.change});
  return out;
}

namespace {

// For each code point below U+30000: bit 0: NFC may change it or compose it with the character before; bit 1:
// it has a combining class.
struct QuickCheck {
  std::vector<uint8_t> bits = std::vector<uint8_t>(0x30000);
  QuickCheck() {
    for (char32_t c = 0; c < bits.size(); ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      if (combining_class(c) != 0) bits[c] |= 2;
      if (c < 0xC0 || (c >= 0xAC00 && c <= 0xD7A3)) continue;
      utf8proc_int32_t parts[32];
      int boundclass = 0;
      const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32,
                                                 UTF8PROC_DECOMPOSE, &boundclass);
      if (count == 1 && parts[0] == static_cast<utf8proc_int32_t>(c)) continue;
      utf8proc_int32_t again[32];
      std::copy(parts, parts + count, again);
      const auto composed_size = utf8proc_normalize_utf32(
          again, count, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
      if (composed_size != 1 || again[0] != static_cast<utf8proc_int32_t>(c)) bits[c] |= 1;
      for (utf8proc_ssize_t i = 1; i < count; ++i)
        if (static_cast<size_t>(parts[i]) < bits.size()) bits[parts[i]] |= 1;
    }
    for (char32_t c = 0x1161; c <= 0x11C2; ++c) bits[c] |= 1;  // Hangul vowels and finals
  }
};

}  // namespace

bool known_in_form(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return true;
  if (form != NormalForm::kNfc) return false;
  static const QuickCheck table;
  int last = 0;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      last = 0;
      ++at;
      continue;
    }
    const char32_t c = next_code(text, at);
    const uint8_t bits = c < table.bits.size() ? table.bits[c] : 0;
    if (bits & 1) return false;
    const int ccc = bits & 2 ? combining_class(c) : 0;
    if (ccc != 0 && ccc < last) return false;
    last = ccc;
  }
  return true;
}

}  // namespace makar
