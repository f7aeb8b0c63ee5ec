#include "serve/routes/stored.h"

#include <algorithm>
#include <charconv>

#include "base/quote.h"

namespace makar::routes {

Status files_enabled(const ServeOptions& options) {
  if (options.files) return Done{};
  return error_of(Error::Kind::kUnsupported, "files", "{}", options.files_disabled_reason);
}

std::pair<std::string, std::string> below(const std::string& path, std::string_view root) {
  if (path.size() <= root.size()) return {};
  const std::string rest = path.substr(root.size());
  const size_t slash = rest.find('/');
  return {rest.substr(0, slash), slash == rest.npos ? "" : rest.substr(slash + 1)};
}

std::string unescaped(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    uint8_t byte = 0;
    const char* digits = path.data() + 1;
    const bool escaped =
        path[0] == '%' && path.size() >= 3 && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    out += escaped ? static_cast<char>(byte) : path[0];
    path.remove_prefix(escaped ? 3 : 1);
  }
  return out;
}

Result<Json> list_page(std::vector<Json> all, const std::string& query, int64_t fallback) {
  const std::string limit = query_value(query, "limit").value_or("");
  const std::string after = query_value(query, "after").value_or("");
  const bool digits = limit.size() <= 6 && limit.find_first_not_of("0123456789") == limit.npos;
  const int64_t max = limit.empty() ? fallback : digits ? std::stoll(limit) : -1;
  if (max < 1 || max > kMaxListed)
    return error_at("limit", "must be 1 to {}, got {}", kMaxListed, quote(limit));
  if (query_value(query, "order").value_or("") == "asc") std::reverse(all.begin(), all.end());
  size_t from = 0;
  if (!after.empty()) {
    while (from < all.size() && all[from]["id"] != Json(after)) ++from;
    if (from == all.size())
      return error_of(Error::Kind::kNotFound, "after", "no item with id {}", quote(after));
    ++from;
  }
  const size_t to = std::min(all.size(), from + static_cast<size_t>(max));
  Json data = Json::array();
  for (size_t i = from; i < to; ++i) data.push_back(std::move(all[i]));
  const Json first = data.empty() ? Json() : data.front()["id"],
             last = data.empty() ? Json() : data.back()["id"];
  return Json{{"object", "list"},
              {"data", std::move(data)},
              {"first_id", first},
              {"last_id", last},
              {"has_more", to < all.size()}};
}

Error no_subresource(const char* what) {
  return error_of(Error::Kind::kNotFound, "path", "{} has no such resource", what);
}

}  // namespace makar::routes
