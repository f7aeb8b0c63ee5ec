// Parts that the cleaners share.
#pragma once
#include <string>
#include <string_view>

#include "base/lower_ascii.h"

namespace makar {

inline bool is_ascii_letter(char c) { return lower_ascii(c) >= 'a' && lower_ascii(c) <= 'z'; }

inline std::string_view trimmed_line(std::string_view line) {
  const size_t from = line.find_first_not_of(" \t\r");
  if (from == line.npos) return {};
  return line.substr(from, line.find_last_not_of(" \t\r") + 1 - from);
}

// The end of a balanced pair that opens at `at`, such as {{ }}; the end of the text if it stays open.
inline size_t balanced(std::string_view text, size_t at, std::string_view open, std::string_view close) {
  int depth = 0;
  while (at < text.size()) {
    if (text.substr(at).starts_with(open)) {
      ++depth, at += open.size();
    } else if (text.substr(at).starts_with(close)) {
      at += close.size();
      if (--depth == 0) return at;
    } else {
      ++at;
    }
  }
  return at;
}

}  // namespace makar
