// ASCII letters in lower case; all other bytes unchanged, whatever the locale.
#pragma once
#include <string>
#include <string_view>

namespace makar {

inline char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
inline std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower_ascii(c);
  return out;
}

}  // namespace makar
