// Shared by the routes of stored files, batches and responses: paths and lists.
#pragma once
#include "serve/serve_context.h"

namespace makar::routes {

// An error if the server stores no files.
Status files_enabled(const ServeOptions& options);
// "/v1/files/file-1/content" below "/v1/files/" -> {"file-1", "content"}
std::pair<std::string, std::string> below(const std::string& path, std::string_view root);
// "a%20b" -> "a b"; other '%' stay.
std::string unescaped(std::string_view path);
constexpr int64_t kMaxListed = 10000;  // entries per page of a list
// Pagination: `limit` entries (default: `fallback`) after the one with id `after`.
Result<Json> list_page(std::vector<Json> all, const std::string& query, int64_t fallback);
Error no_subresource(const char* what);

}  // namespace makar::routes
