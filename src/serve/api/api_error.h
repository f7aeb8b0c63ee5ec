// What goes wrong with a request, as all dialects tell it in their own form.
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
  int retry_after = 0;  // seconds; 0: not said

  // The place of an Error is the field; "--best-of" of the options is best_of here.
  static ApiError of(const Error& error);
};

enum class Dialect { kOpenAi, kAnthropic, kOllama };

std::string error_body(Dialect dialect, const ApiError& error);
HttpResponse error_response(Dialect dialect, const ApiError& error);

}  // namespace makar
