#include "base/error.h"

namespace makar {

Error::Error() = default;
Error::Error(Kind k, std::string_view at, std::string_view text) : kind(k), place(at), message(text) {}
Error::Error(const Error&) = default;
Error::Error(Error&&) noexcept = default;
Error& Error::operator=(const Error&) = default;
Error& Error::operator=(Error&&) noexcept = default;
Error::~Error() = default;

std::string Error::text() const { return place.empty() ? message : place + ": " + message; }

Error Error::in(std::string_view outer) const {
  return {kind, place.empty() ? std::string(outer) : fmt::format("{}: {}", outer, place), message};
}

Error format_error(Error::Kind kind, std::string_view place, fmt::string_view format, fmt::format_args args) {
  return {kind, place, fmt::vformat(format, args)};
}

const char* name(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::kInvalid:
      return "invalid";
    case Error::Kind::kNotFound:
      return "not found";
    case Error::Kind::kIo:
      return "input/output";
    case Error::Kind::kUnsupported:
      return "unsupported";
    case Error::Kind::kLimit:
      return "limit";
  }
  return "error";
}

void fail_check(const std::string& what, SourcePlace where) {
  throw ContractError(fmt::format("{}:{}: {}: {}", where.file, where.line, where.function, what));
}

void fail_value(const Error& error) {
  fail_check("value() called on a failed Result: " + error.text(), SourcePlace::current());
}

}  // namespace makar
