#include "base/error.h"

namespace makar {

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
