#include "base/quote.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace makar {

std::string quote(std::string_view text, size_t limit) {
  const bool truncated = text.size() > limit;
  if (truncated) {
    while (limit > 0 && is_utf8_continuation(text[limit])) --limit;  // truncate at a character boundary
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
  return out + (truncated ? "...'" : "'");
}

std::string double_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += c;
    out += c;
  }
  return out + "\"";
}

}  // namespace makar
