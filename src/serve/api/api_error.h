// Errors of a request, independent of the API; each API writes them in its own format.
#pragma once
#include <optional>
#include <string>

#include "base/error.h"
#include "serve/http/http.h"

namespace makar {

struct ApiError {
  int status = 400;
  std::string message, type = "invalid_request_error";
  std::optional<std::string> param = {}, code = {};
  int retry_after = 0;  // seconds; 0: no Retry-After header

  // Options are named as fields of the request (base/option_names.h).
  static ApiError of(const Error& error);
};

enum class Dialect { kOpenAi, kAnthropic, kOllama };

std::string error_body(Dialect dialect, const ApiError& error);
HttpResponse error_response(Dialect dialect, const ApiError& error);

}  // namespace makar
