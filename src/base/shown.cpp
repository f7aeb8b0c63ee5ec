#include "base/shown.h"

#include <fmt/format.h>

namespace makar {

std::string shown(std::string_view text, size_t limit) {
  const bool cut = text.size() > limit;
  if (cut) {
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80)
      --limit;  // whole characters
    text = text.substr(0, limit);
  }
  std::string out = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + (cut ? "...'" : "'");
}

}  // namespace makar
