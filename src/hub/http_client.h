// HTTP with libcurl: small responses into memory, files to disk with resume, JSON requests. Uses the proxies
// of the environment (https_proxy, no_proxy).
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"

namespace makar {

struct HttpClientRequest {
  std::string url;
  std::string token = {};  // bearer token for this host; not sent after a redirect to another host
  bool redirects = true;   // false: a redirect is an error
  int64_t seconds = 0;     // timeout of the whole request; 0: only a stalled request fails
};

// The body of a 200 response, at most `limit` bytes. Errors: kIo if the host cannot be reached, kNotFound for
// status 404, kUnsupported for 401 and 403, kLimit.
Result<std::string> http_get(const HttpClientRequest& request, size_t limit);

struct HttpClientResponse {
  long status = 0;
  std::string body;
};
// Posts a JSON body and returns the response with any status. Errors: kIo if the host cannot be reached
// or stalls for `seconds`, kLimit.
Result<HttpClientResponse> http_post_json(const HttpClientRequest& request, const std::string& body,
                                          size_t limit, int64_t seconds = 600);

// Resumes the download to `path`, or restarts it if the server does not support ranges. `progress` receives
// the bytes in the file so far and returns false to cancel. Errors: as http_get.
Status http_download(const HttpClientRequest& request, const std::string& path,
                     const std::function<bool(uint64_t bytes)>& progress);

}  // namespace makar
