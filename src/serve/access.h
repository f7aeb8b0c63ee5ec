// Access control: API keys, allowed Host names and origins, and rate limits per caller.
#pragma once
#include "serve/keys.h"
#include "serve/rate_limit.h"

namespace makar {

struct AccessOptions {
  KeyRing keys;                      // empty: only loopback clients are served
  std::vector<std::string> origins;  // allowed CORS origins ("https://a.example"); "*": all
  RateLimit::Limits limits;          // per key, or per client address without keys
};

class Access {
 public:
  explicit Access(AccessOptions options)
      : keys_(std::move(options.keys)), origins_(std::move(options.origins)), limits_(options.limits) {}

  // The error for a request without access; none if it is allowed. `open` routes need no key.
  std::optional<ApiError> forbidden(const HttpRequest& head, bool open) const;
  // The name of the request's API key, or the client address.
  std::string caller(const HttpRequest& head) const;
  // The owner of data that the request stores: the key's name, or "" without keys.
  std::string owner(const HttpRequest& head) const { return keys_.empty() ? "" : caller(head); }
  // Whether the caller may see server-wide data. With several keys, only those marked "admin" may.
  bool may_see_all(const HttpRequest& head) const;
  RateLimit& limits() { return limits_; }

  // Response headers: CORS for an allowed origin and, with `limits`, the caller's rate limits.
  HttpHeaders headers(const HttpRequest& head, bool limits);
  // The response to a CORS preflight request; none for other requests.
  std::optional<HttpResponse> preflight(const HttpRequest& head) const;

 private:
  HttpHeaders cors_headers(const HttpRequest& head) const;
  bool origin_allowed(const std::string& origin) const;
  KeyRing keys_;
  std::vector<std::string> origins_;
  RateLimit limits_;
};

}  // namespace makar
