// Errors as values for input from outside (Result<T>), and check() for broken contracts inside.
#pragma once
#include <fmt/format.h>

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace makar {

// What is wrong with an input. `message` says what was expected, what was found and the cure when it is
// known; `place` says where: a file, and an offset, line or field inside it.
struct Error {
  enum class Kind { kInvalid, kNotFound, kIo, kUnsupported, kLimit };
  Kind kind = Kind::kInvalid;
  std::string place;
  std::string message;

  // Not inline: most calls can fail, and errors are rare. Inlined, they would be a tenth of the code to
  // compile.
  Error();
  Error(Kind kind, std::string_view place, std::string_view message);
  Error(const Error&);
  Error(Error&&) noexcept;
  Error& operator=(const Error&);
  Error& operator=(Error&&) noexcept;
  ~Error();

  std::string text() const;
  // Adds an outer place in front, as an error passes from a field up to its file.
  Error in(std::string_view outer) const;
};

const char* name(Error::Kind kind);
// value() was called on a failed Result.
[[noreturn]] void fail_value(const Error& error);

// Implements error_at and error_of, outside of the templates.
Error format_error(Error::Kind kind, std::string_view place, fmt::string_view format, fmt::format_args args);

template <class... Args>
Error error_at(std::string_view place, fmt::format_string<Args...> format, Args&&... args) {
  return format_error(Error::Kind::kInvalid, place, format, fmt::make_format_args(args...));
}
template <class... Args>
Error error_of(Error::Kind kind, std::string_view place, fmt::format_string<Args...> format, Args&&... args) {
  return format_error(kind, place, format, fmt::make_format_args(args...));
}

// A broken contract: a bug in makar, not in the input. Caught only at the top: in cli/main, the server, the C
// API and the tests.
struct ContractError : std::logic_error {
  using std::logic_error::logic_error;
};

// The source location of a check (clang 14 lacks the builtin that std::source_location needs).
struct SourcePlace {
  const char* file;
  int line;
  const char* function;
  static constexpr SourcePlace current(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                                       const char* function = __builtin_FUNCTION()) {
    return {file, line, function};
  }
};

[[noreturn]] void fail_check(const std::string& what, SourcePlace where);

inline void check(bool ok, const char* what, SourcePlace where = SourcePlace::current()) {
  if (!ok) [[unlikely]]
    fail_check(what, where);
}
inline void check(bool ok, const std::string& what, SourcePlace where = SourcePlace::current()) {
  if (!ok) [[unlikely]]
    fail_check(what, where);
}

// A value, or the Error that explains why there is none. A plain union: std::variant would be 7 % of the
// code to compile.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)), ok_(true) {}
  Result(const Error& error) : error_(error), ok_(false) {}
  Result(Error&& error) : error_(std::move(error)), ok_(false) {}
  Result(const Result& other) : ok_(other.ok_) {
    if (ok_)
      new (&value_) T(other.value_);
    else
      new (&error_) Error(other.error_);
  }
  Result(Result&& other) noexcept : ok_(other.ok_) {
    if (ok_)
      new (&value_) T(std::move(other.value_));
    else
      new (&error_) Error(std::move(other.error_));
  }
  Result& operator=(const Result& other) { return *this = Result(other); }
  Result& operator=(Result&& other) noexcept {
    if (this == &other) return *this;
    this->~Result();
    return *new (this) Result(std::move(other));
  }
  ~Result() {
    if (ok_)
      value_.~T();
    else
      error_.~Error();
  }

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }

  T& value() & { return require(), value_; }
  const T& value() const& { return require(), value_; }
  T&& value() && { return require(), std::move(value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    check(!ok_, "error() called on a successful Result");
    return error_;
  }
  // The error, moved out of a failed Result.
  Error&& take_error() {
    check(!ok_, "take_error() called on a successful Result");
    return std::move(error_);
  }

 private:
  void require() const {
    if (!ok_) [[unlikely]]
      fail_value(error_);
  }
  union {
    T value_;
    Error error_;
  };
  bool ok_;
};

struct Done {};
using Status = Result<Done>;

}  // namespace makar

// MAKAR_TRY(auto x, expression): x is the value, or the function returns the Error.
#define MAKAR_TRY_CAT2(a, b) a##b
#define MAKAR_TRY_CAT(a, b) MAKAR_TRY_CAT2(a, b)
#define MAKAR_TRY(declaration, ...)                                                                 \
  auto MAKAR_TRY_CAT(result_, __LINE__) = (__VA_ARGS__);                                            \
  if (!MAKAR_TRY_CAT(result_, __LINE__).ok()) return MAKAR_TRY_CAT(result_, __LINE__).take_error(); \
  declaration = std::move(*MAKAR_TRY_CAT(result_, __LINE__))
// MAKAR_RETURN_IF_ERROR(expression): the function returns the Error of a failed Status.
#define MAKAR_RETURN_IF_ERROR(...)             \
  do {                                         \
    const auto& status_ = (__VA_ARGS__);       \
    if (!status_.ok()) return status_.error(); \
  } while (false)
