// A text with every occurrence of a part replaced.
#pragma once
#include <string>
#include <string_view>
#include <type_traits>

namespace makar {

// Replaces from left to right; occurrences do not overlap. An empty `from` changes nothing.
template <class Char>
std::basic_string<Char> replace_all(const std::basic_string<Char>& text,
                                    std::type_identity_t<std::basic_string_view<Char>> from,
                                    std::type_identity_t<std::basic_string_view<Char>> to) {
  if (from.empty()) return text;
  std::basic_string<Char> out;
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != text.npos; at = found + from.size())
    out.append(text, at, found - at).append(to);
  return out.append(text, at);
}

}  // namespace makar
