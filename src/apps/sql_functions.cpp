#include "apps/sql_functions.h"

#include <sqlite3.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace makar {
namespace {

constexpr int64_t kMaxSteps = int64_t{1} << 26;  // pairs of bytes that one call compares
constexpr int kMaxPatternBytes = 1000, kMaxWidthDigits = 4;

constexpr const char* kNames[] = {"instr", "replace",    "trim",   "ltrim",
                                  "rtrim", "json_patch", "printf", "format"};
constexpr int kFirstFormat = 6;  // printf and format take a format string

}  // namespace

struct SqlFunctions {
  static SqlWork& work(sqlite3_context* context) {
    return *static_cast<SqlWork*>(sqlite3_user_data(context));
  }
  static void fail(sqlite3_context* context, const std::string& message) {
    sqlite3_result_error(context, message.c_str(), static_cast<int>(message.size()));
  }

  // Whether all widths and precisions are literal numbers of at most four digits.
  static bool is_bounded_format(std::string_view format) {
    for (size_t i = format.find('%'); i < format.size(); i = format.find('%', i + 1)) {
      int digits = 0;
      for (++i; i < format.size() &&
                std::string_view("0123456789.,-+ #!*lh").find(format[i]) != std::string_view::npos;
           ++i) {
        digits = format[i] >= '0' && format[i] <= '9' ? digits + 1 : 0;
        if (format[i] == '*' || digits > kMaxWidthDigits) return false;
      }
    }
    return true;
  }

  // Calls SQLite's built-in function, or fails if that could take long.
  template <int kName>
  static void call(sqlite3_context* context, int count, sqlite3_value** values) {
    const char* name = kNames[kName];
    if (work(context).exceeded()) return fail(context, "interrupted");
    if (kName >= kFirstFormat) {
      const auto* text = count > 0 ? sqlite3_value_text(values[0]) : nullptr;
      if (text && !is_bounded_format(reinterpret_cast<const char*>(text)))
        return fail(context, fmt::format("{}: the format has * or a width above 9999", name));
    } else if (count >= 2) {
      const int64_t a = sqlite3_value_bytes(values[0]), b = sqlite3_value_bytes(values[1]);
      if ((a + 1) * (b + 1) > kMaxSteps)
        return fail(context, fmt::format("{}: texts of {} and {} bytes are too long; use shorter ones, for "
                                         "instance of substr()",
                                         name, a, b));
    }
    call_builtin(context, name, count, values);
  }

  static void call_builtin(sqlite3_context* context, const char* name, int count, sqlite3_value** values) {
    sqlite3_stmt* builtin = work(context).builtin(name, count);
    if (!builtin) return fail(context, fmt::format("wrong number of arguments to function {}()", name));
    for (int i = 0; i < count; ++i) sqlite3_bind_value(builtin, i + 1, values[i]);
    if (sqlite3_step(builtin) == SQLITE_ROW)
      sqlite3_result_value(context, sqlite3_column_value(builtin, 0));
    else
      fail(context, sqlite3_errmsg(sqlite3_db_handle(builtin)));
    sqlite3_reset(builtin);
    sqlite3_clear_bindings(builtin);
  }

  template <bool kLike>
  static void match(sqlite3_context* context, int count, sqlite3_value** values) {
    if (work(context).exceeded()) return fail(context, "interrupted");
    const int64_t length = sqlite3_value_bytes(values[0]);
    if (length > kMaxPatternBytes) return fail(context, "LIKE or GLOB pattern too complex");
    if ((length + 1) * (sqlite3_value_bytes(values[1]) + 1) > kMaxSteps)
      return fail(context, "LIKE or GLOB: the text is too long");
    call_builtin(context, kLike ? "like" : "glob", count, values);
  }
};

SqlWork::SqlWork() {
  if (sqlite3_open_v2(":memory:", &builtins_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr) ==
      SQLITE_OK)
    sqlite3_limit(builtins_, SQLITE_LIMIT_LENGTH, 4 << 20);
}

SqlWork::~SqlWork() {
  for (const auto& [key, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close_v2(builtins_);
}

void SqlWork::begin(double seconds) {
  deadline_ =
      std::chrono::steady_clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
  memory_at_begin_ = sqlite3_memory_used();
  timed_out_ = out_of_memory_ = false;
}

bool SqlWork::exceeded() {
  timed_out_ = timed_out_ || std::chrono::steady_clock::now() > deadline_;
  out_of_memory_ = out_of_memory_ || sqlite3_memory_used() - memory_at_begin_ > kMaxMemoryBytes;
  return timed_out_ || out_of_memory_;
}

sqlite3_stmt* SqlWork::builtin(const std::string& name, int arguments) {
  const auto [entry, added] = statements_.try_emplace({name, arguments}, nullptr);
  if (added) {
    std::string placeholders;
    for (int i = 0; i < arguments; ++i) placeholders += i > 0 ? ",?" : "?";
    sqlite3_prepare_v2(builtins_, fmt::format("SELECT {}({})", name, placeholders).c_str(), -1,
                       &entry->second, nullptr);
  }
  return entry->second;
}

void SqlWork::limit_functions(sqlite3* connection) {
  constexpr int kFlags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
  using Function = void (*)(sqlite3_context*, int, sqlite3_value**);
  const auto define = [&](const char* name, int arguments, Function f) {
    sqlite3_create_function_v2(connection, name, arguments, kFlags, this, f, nullptr, nullptr, nullptr);
  };
  define("instr", 2, SqlFunctions::call<0>);
  define("replace", 3, SqlFunctions::call<1>);
  define("trim", 2, SqlFunctions::call<2>);
  define("ltrim", 2, SqlFunctions::call<3>);
  define("rtrim", 2, SqlFunctions::call<4>);
  define("json_patch", 2, SqlFunctions::call<5>);
  define("printf", -1, SqlFunctions::call<6>);
  define("format", -1, SqlFunctions::call<7>);
  define("like", 2, SqlFunctions::match<true>);
  define("like", 3, SqlFunctions::match<true>);
  define("glob", 2, SqlFunctions::match<false>);
}

}  // namespace makar
