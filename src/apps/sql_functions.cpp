#include "apps/sql_functions.h"

#include <sqlite3.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/lower_ascii.h"

namespace makar {
namespace {

constexpr int64_t kMaxSteps = int64_t{1} << 26;  // pairs of bytes that one call compares
constexpr int kMaxPatternBytes = 1000, kMaxWidthDigits = 4;

constexpr const char* kNames[] = {"instr", "replace",    "trim",   "ltrim",
                                  "rtrim", "json_patch", "printf", "format"};
constexpr int kFirstFormat = 6;  // printf and format take a format string
constexpr const char* kDateNames[] = {"date", "time", "datetime", "julianday", "unixepoch", "strftime"};
constexpr int kStrftime = 5;  // its time is the second argument

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

  static void refuse(sqlite3_context* context, int, sqlite3_value**) {
    fail(context, "random numbers and the current time are not allowed here");
  }

  // Whether SQLite reads a value as 'now', to its first zero byte.
  static bool is_now(sqlite3_value* value) {
    const int type = sqlite3_value_type(value);
    if (type != SQLITE_TEXT && type != SQLITE_BLOB) return false;
    const auto* bytes = static_cast<const char*>(sqlite3_value_blob(value));
    const std::string_view text(bytes ? bytes : "", static_cast<size_t>(sqlite3_value_bytes(value)));
    return lower_ascii(text.substr(0, text.find('\0'))) == "now";
  }

  // A function of date and time, which must be given a time other than 'now'.
  template <int kName>
  static void date(sqlite3_context* context, int count, sqlite3_value** values) {
    bool now = count < (kName == kStrftime ? 2 : 1);
    for (int i = 0; i < count; ++i) now = now || is_now(values[i]);
    if (now) return refuse(context, count, values);
    call_builtin(context, kDateNames[kName], count, values);
  }
};

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

namespace {

void define(sqlite3* connection, SqlWork* work, const char* name, int arguments,
            void (*f)(sqlite3_context*, int, sqlite3_value**)) {
  constexpr int kFlags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
  sqlite3_create_function_v2(connection, name, arguments, kFlags, work, f, nullptr, nullptr, nullptr);
}

}  // namespace

void SqlWork::limit_functions(sqlite3* connection) {
  const auto replace = [&](const char* name, int arguments, auto f) {
    define(connection, this, name, arguments, f);
  };
  replace("instr", 2, SqlFunctions::call<0>);
  replace("replace", 3, SqlFunctions::call<1>);
  replace("trim", 2, SqlFunctions::call<2>);
  replace("ltrim", 2, SqlFunctions::call<3>);
  replace("rtrim", 2, SqlFunctions::call<4>);
  replace("json_patch", 2, SqlFunctions::call<5>);
  replace("printf", -1, SqlFunctions::call<6>);
  replace("format", -1, SqlFunctions::call<7>);
  replace("like", 2, SqlFunctions::match<true>);
  replace("like", 3, SqlFunctions::match<true>);
  replace("glob", 2, SqlFunctions::match<false>);
}

void SqlWork::require_repeatable(sqlite3* connection) {
  const auto replace = [&](int name, auto f) { define(connection, this, kDateNames[name], -1, f); };
  replace(0, SqlFunctions::date<0>);
  replace(1, SqlFunctions::date<1>);
  replace(2, SqlFunctions::date<2>);
  replace(3, SqlFunctions::date<3>);
  replace(4, SqlFunctions::date<4>);
  replace(kStrftime, SqlFunctions::date<kStrftime>);
  // These may also be default values of columns, which no authorizer sees.
  for (const char* name : {"random", "current_date", "current_time", "current_timestamp"})
    define(connection, this, name, 0, SqlFunctions::refuse);
}

}  // namespace makar
