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
  const auto left = utf8proc_normalize_utf32(pair, 2, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  return left == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

std::vector<Item> decompose(std::string_view text, bool compatible) {
  const auto options = static_cast<utf8proc_option_t>(compatible ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE);
  std::vector<Item> items;
  items.reserve(text.size());
  size_t settled = 0;  // items before this are in canonical order
  const auto settle = [&](size_t end) {
    std::stable_sort(items.begin() + settled, items.begin() + end, [](const Item& a, const Item& b) { return a.ccc < b.ccc; });
    settled = end;
  };
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code(text, at);
    utf8proc_int32_t parts[32];
    int last_boundclass = 0;
    auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, 32, options, &last_boundclass);
    if (count <= 0 || count > 32) parts[0] = static_cast<utf8proc_int32_t>(code), count = 1;
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto part = static_cast<char32_t>(parts[i]);
      const int ccc = part < 0x300 ? 0 : combining_class(part);
      if (ccc == 0) settle(items.size());
      items.push_back({part, i > 0, ccc});
      if (ccc == 0) settled = items.size();
    }
  }
  settle(items.size());
  return items;
}

// Canonical composition: each mark joins the last starter unless one of the same or a higher class stands between.
void recompose(std::vector<Item>& items) {
  size_t out = 0;
  size_t starter = SIZE_MAX;
  int last_ccc = -1;  // -1: nothing stands between the starter and here
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

std::vector<FormedChar> normal_form(std::string_view text, NormalForm form) {
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  std::vector<Item> items = decompose(text, compatible);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) recompose(items);
  std::vector<FormedChar> out;
  out.reserve(items.size());
  for (const Item& item : items) out.push_back({item.code, item.change});
  return out;
}

bool surely_in_form(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return true;
  if (form != NormalForm::kNfc) return false;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const char32_t c = next_code(text, at);
    // Below U+0300, punctuation and dashes, kana without sound marks, CJK ideographs, Hangul syllables,
    // Cyrillic: all stay as they are.
    const bool stays = c < 0x300 || (c >= 0x400 && c < 0x483) || (c >= 0x2010 && c < 0x2028) ||
                       (c >= 0x2030 && c < 0x2071) || (c >= 0x3001 && c < 0x302A) || (c >= 0x3041 && c < 0x3099) ||
                       (c >= 0x30A1 && c < 0x3100) || (c >= 0x4E00 && c < 0xA000) || (c >= 0xAC00 && c < 0xD7A4) ||
                       (c >= 0xFF01 && c < 0xFFE0) || (c >= 0x1F300 && c < 0x1FB00) || (c >= 0xDC80 && c < 0xDD00);
    if (!stays) return false;
  }
  return true;
}

}  // namespace makar
