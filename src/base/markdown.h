// Text in Markdown.
#pragma once
#include <string>
#include <string_view>

namespace makar {

// A cell of a table: bars are escaped, line breaks become blanks.
inline std::string markdown_cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out;
}

}  // namespace makar
