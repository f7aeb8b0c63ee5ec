#include "serve/access.h"

#include <algorithm>

#include "base/quote.h"

namespace makar {
namespace {

std::string request_key(const HttpRequest& head) {
  const std::string bearer = head.header("authorization");
  if (bearer.size() > 7 && (bearer.starts_with("Bearer ") || bearer.starts_with("bearer ")))
    return bearer.substr(7);
  return head.header("x-api-key");
}

// "[::1]:8080" -> "::1"
std::string host_name(const std::string& host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

std::optional<ApiError> Access::forbidden(const HttpRequest& head, bool open) const {
  if (!keys_.empty()) {
    if (open || keys_.find(request_key(head))) return std::nullopt;
    return ApiError{401,
                    "a valid API key is required in the header Authorization: Bearer KEY, or x-api-key: KEY",
                    "authentication_error", std::nullopt, "invalid_api_key"};
  }
  // Without keys only loopback clients are served. The Host and Origin checks reject requests that a
  // foreign page makes through a local browser.
  const std::string host = head.header("host"), origin = head.header("origin");
  if (!host.empty() && !is_loopback(host_name(host)))
    return ApiError{403,
                    fmt::format("without an API key the server accepts only local host names, got {}; start "
                                "it with --api-key to accept others",
                                quote(host)),
                    "permission_error", std::nullopt, "forbidden_host"};
  if (!origin.empty() && !origin.ends_with("://" + host) && !origin_allowed(origin))
    return ApiError{403,
                    fmt::format("requests from the origin {} are not allowed without an API key; start the "
                                "server with --cors to allow them",
                                quote(origin)),
                    "permission_error", std::nullopt, "forbidden_origin"};
  return std::nullopt;
}

std::string Access::caller(const HttpRequest& head) const {
  if (keys_.empty()) return head.remote;
  const KeyRing::Key* key = keys_.find(request_key(head));
  return key ? key->name : head.remote;
}

bool Access::may_see_all(const HttpRequest& head) const {
  if (keys_.size() <= 1) return true;
  const KeyRing::Key* key = keys_.find(request_key(head));
  return key && key->admin;
}

bool Access::origin_allowed(const std::string& origin) const {
  return std::any_of(origins_.begin(), origins_.end(),
                     [&](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

HttpHeaders Access::cors_headers(const HttpRequest& head) const {
  const std::string origin = head.header("origin");
  if (origin.empty() || !origin_allowed(origin)) return {};
  return {{"access-control-allow-origin", origin}, {"vary", "origin"}};
}

HttpHeaders Access::headers(const HttpRequest& head, bool limits) {
  HttpHeaders out = cors_headers(head);
  if (limits)
    for (auto& header : limits_.headers(caller(head))) out.push_back(std::move(header));
  return out;
}

std::optional<HttpResponse> Access::preflight(const HttpRequest& head) const {
  HttpHeaders headers = cors_headers(head);
  if (head.method != "OPTIONS" || headers.empty() || head.header("access-control-request-method").empty())
    return std::nullopt;
  headers.emplace_back("access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE");
  // Safe to echo: the parser rejects header values that contain line breaks.
  const std::string requested = head.header("access-control-request-headers");
  if (!requested.empty()) headers.emplace_back("access-control-allow-headers", requested);
  headers.emplace_back("access-control-max-age", "600");
  return HttpResponse{200, "", "text/plain", std::move(headers)};
}

}  // namespace makar
