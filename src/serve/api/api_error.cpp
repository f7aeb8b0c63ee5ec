#include "serve/api/api_error.h"

#include "base/option_names.h"
#include "serve/api/fields.h"

namespace makar {
namespace {

const char* anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

}  // namespace

ApiError ApiError::of(const Error& error) {
  ApiError out;
  constexpr std::string_view kServerPrefix = "the server's ";
  const std::string place = options_as_fields(error.place, kServerPrefix),
                    message = options_as_fields(error.message, kServerPrefix);
  out.message = place.empty() ? message : place + ": " + message;
  if (!place.empty() && !place.starts_with(kServerPrefix)) out.param = place.substr(0, place.find(": "));
  switch (error.kind) {
    case Error::Kind::kInvalid:
      out.code = "invalid_value";
      break;
    case Error::Kind::kNotFound:
      out.status = 404, out.code = out.param == "model" ? "model_not_found" : "not_found";
      break;
    case Error::Kind::kUnsupported:
      out.code = "unsupported";
      break;
    case Error::Kind::kLimit:
      if (error.place == "time" || error.place == "memory") {
        out.status = 503, out.type = "overloaded_error",
        out.code = error.place == "time" ? "timeout" : "busy", out.param.reset();
        out.retry_after = 5;
      } else {
        const bool in_prompt = place == "messages" || place.starts_with("prompt");
        out.code = in_prompt ? "context_length_exceeded" : "limit_exceeded";
      }
      break;
    case Error::Kind::kIo:
      out.status = 500, out.type = "server_error", out.code = "internal_error", out.param.reset();
      // File paths and source locations go only to the log.
      if (place.find('/') != place.npos) out.message = message;
      if (error.message.starts_with("internal error")) out.message = "internal error";
      break;
  }
  return out;
}

std::string error_body(Dialect dialect, const ApiError& e) {
  if (dialect == Dialect::kAnthropic)
    return dump({{"type", "error"}, {"error", {{"type", anthropic_type(e.status)}, {"message", e.message}}}});
  if (dialect == Dialect::kOllama) return dump({{"error", e.message}});
  return dump({{"error",
                {{"message", e.message},
                 {"type", e.type},
                 {"param", e.param ? Json(*e.param) : Json()},
                 {"code", e.code ? Json(*e.code) : Json()}}}});
}

HttpResponse error_response(Dialect dialect, const ApiError& e) {
  HttpResponse out{e.status, error_body(dialect, e) + "\n"};
  if (e.retry_after > 0) out.headers.emplace_back("retry-after", std::to_string(e.retry_after));
  if (e.status == 401) out.headers.emplace_back("www-authenticate", "Bearer");
  return out;
}

}  // namespace makar
