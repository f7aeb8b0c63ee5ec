// Reads files of JSON lines.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/file.h"
#include "base/json.h"

namespace makar {

// Calls `use` with the value of each line and its place, FILE:LINE; skips blank lines. A malformed line or an
// error of `use` ends the reading.
inline Status each_json_line(const std::string& path,
                             const std::function<Status(Json value, const std::string& place)>& use) {
  MAKAR_TRY(const std::string text, read_file(path));
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string place = fmt::format("{}:{}", path, ++number);
    if (text.find_first_not_of(" \t\r", at) < end) {
      MAKAR_TRY(Json value, parse_json(std::string_view(text).substr(at, end - at), place));
      MAKAR_RETURN_IF_ERROR(use(std::move(value), place));
    }
    at = end + 1;
  }
  return Done{};
}

}  // namespace makar
