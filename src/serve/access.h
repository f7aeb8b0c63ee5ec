// Who may come in: keys, names of this machine, pages of other origins, and how much each may ask for.
#pragma once
#include "serve/keys.h"
#include "serve/rate_limit.h"

namespace makar {

struct AccessOptions {
  KeyRing keys;                      // none: this machine alone is served
  std::vector<std::string> origins;  // pages that may call ("https://a.example"); "*": all
  RateLimit::Limits limits;          // of a key, or of an address where there are none
};

class Access {
 public:
  explicit Access(AccessOptions options)
      : keys_(std::move(options.keys)), origins_(std::move(options.origins)), limits_(options.limits) {}

  // `open` routes ask for no key.
  std::optional<ApiError> forbidden(const HttpRequest& head, bool open) const;
  // The name of the key that is shown, or the address.
  std::string caller(const HttpRequest& head) const;
  // Whose things are kept: of the key's name; nobody's where there are no keys.
  std::string owner(const HttpRequest& head) const { return keys_.empty() ? "" : caller(head); }
  RateLimit& limits() { return limits_; }

  // What an answer carries: for a page of another origin that may see it, and of the caller's limits.
  HttpHeaders headers(const HttpRequest& head, bool limits);
  // The answer to the question that a browser asks beforehand.
  std::optional<HttpResponse> preflight(const HttpRequest& head) const;

 private:
  HttpHeaders cors_headers(const HttpRequest& head) const;
  bool origin_allowed(const std::string& origin) const;
  KeyRing keys_;
  std::vector<std::string> origins_;
  RateLimit limits_;
};

}  // namespace makar
