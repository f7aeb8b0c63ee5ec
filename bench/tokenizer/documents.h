// Splits a text into documents of about 4 KB that end with a line, as a data loader would. All programs of
// the benchmark split the same way.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace makar::bench {

inline std::vector<std::string_view> documents(const std::string& text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', std::min(at + 4096, text.size() - 1));
    end = end == std::string::npos ? text.size() : end + 1;
    out.push_back(std::string_view(text).substr(at, end - at));
    at = end;
  }
  return out;
}

}  // namespace makar::bench
