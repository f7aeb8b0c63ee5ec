#include "apps/sql_reader.h"

#include <sqlite3.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "apps/sql_authorizer.h"
#include "apps/sql_functions.h"
#include "apps/sql_value.h"
#include "base/file.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "data/formats_table.h"
#include "database/postgres.h"
#include "retrieval/load/encoding.h"

namespace makar {
namespace {

constexpr int kInstructionsPerCheck = 100;
constexpr int kMaxStatementBytes = 64 << 10;
constexpr size_t kMaxCsvBytes = size_t{1} << 28;
constexpr int kMaxScriptBytes = 4 << 20;

// The limits of a statement, from its preparation to its end.
struct Limited {
  sqlite3* connection;
  SqlWork& work;
  Limited(sqlite3* c, SqlWork& w, const SqlLimits& limits) : connection(c), work(w) {
    work.begin(limits.seconds);
    const auto stop = [](void* running) -> int { return static_cast<SqlWork*>(running)->exceeded(); };
    sqlite3_progress_handler(connection, kInstructionsPerCheck, stop, &work);
  }
  ~Limited() {
    sqlite3_progress_handler(connection, 0, nullptr, nullptr);
    work.end();
  }
  Limited(const Limited&) = delete;
};

struct Finalize {
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};
using Prepared = std::unique_ptr<sqlite3_stmt, Finalize>;

std::string text_of(sqlite3_stmt* statement, int at) {
  switch (sqlite3_column_type(statement, at)) {
    case SQLITE_NULL:
      return "NULL";
    case SQLITE_BLOB:
      return fmt::format("(blob of {} bytes)", sqlite3_column_bytes(statement, at));
    default:
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, at));
      return to_valid_utf8({text ? text : "", static_cast<size_t>(sqlite3_column_bytes(statement, at))});
  }
}

void add_key(sqlite3_stmt* statement, int at, std::string& row) {
  const auto bytes = [&](const void* first) {
    return std::string_view(static_cast<const char*>(first),
                            first ? static_cast<size_t>(sqlite3_column_bytes(statement, at)) : 0);
  };
  switch (sqlite3_column_type(statement, at)) {
    case SQLITE_NULL:
      return add_null_key(row);
    case SQLITE_INTEGER:
      return add_integer_key(row, sqlite3_column_int64(statement, at));
    case SQLITE_FLOAT:
      return add_real_key(row, sqlite3_column_double(statement, at));
    case SQLITE_BLOB:
      return add_blob_key(row, bytes(sqlite3_column_blob(statement, at)));
    default:
      return add_text_key(row, bytes(sqlite3_column_text(statement, at)));
  }
}

// Whether only blanks, semicolons and comments follow a statement.
bool nothing_follows(sqlite3* connection, const char* tail, const char* end) {
  while (tail < end) {
    sqlite3_stmt* raw = nullptr;
    const char* next = nullptr;
    const int code = sqlite3_prepare_v2(connection, tail, static_cast<int>(end - tail), &raw, &next);
    const Prepared statement(raw);
    if (code != SQLITE_OK || raw || !next || next <= tail) return code == SQLITE_OK && !raw;
    tail = next;
  }
  return true;
}

bool is_number(const std::string& text, double& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

}  // namespace

SqlReader::SqlReader(std::unique_ptr<sqlite3, Close> connection, std::string path)
    : work_(connection ? std::make_shared<SqlWork>() : nullptr),
      connection_(std::move(connection)),
      path_(std::move(path)) {}

void SqlReader::Close::operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }

void SqlReader::lock_down() const {
  sqlite3* c = connection_.get();
  sqlite3_db_config(c, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(c, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(c, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  sqlite3_exec(c,
               "PRAGMA query_only=1; PRAGMA cell_size_check=1; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY",
               nullptr, nullptr, nullptr);
  sqlite3_limit(c, SQLITE_LIMIT_SQL_LENGTH, kMaxStatementBytes);
  sqlite3_limit(c, SQLITE_LIMIT_LENGTH, 4 << 20);
  sqlite3_limit(c, SQLITE_LIMIT_COLUMN, 2000);
  sqlite3_limit(c, SQLITE_LIMIT_EXPR_DEPTH, 200);
  sqlite3_limit(c, SQLITE_LIMIT_COMPOUND_SELECT, 50);
  sqlite3_limit(c, SQLITE_LIMIT_VDBE_OP, 100000);
  sqlite3_limit(c, SQLITE_LIMIT_FUNCTION_ARG, 20);
  sqlite3_limit(c, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(c, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000);
  sqlite3_limit(c, SQLITE_LIMIT_WORKER_THREADS, 0);
  work_->limit_functions(c);
  make_json_tables();
  sqlite3_set_authorizer(c, authorize_query, work_.get());
}

// SQLite makes these virtual tables when a statement with them is prepared first, which the authorizer
// denies.
void SqlReader::make_json_tables() const {
  const Limited limited(connection_.get(), *work_, {});
  for (const std::string table : {"json_each", "json_tree"}) {
    sqlite3_stmt* raw = nullptr;
    sqlite3_prepare_v2(connection_.get(), ("SELECT 1 FROM " + table + "('[]')").c_str(), -1, &raw, nullptr);
    const Prepared statement(raw);
  }
}

Result<SqlReader> SqlReader::open(const std::string& path) {
  if (is_postgres_address(path)) return open_postgres(path);
  if (!is_file(path)) return error_of(Error::Kind::kNotFound, path, "no such database");
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr);
  SqlReader out(std::unique_ptr<sqlite3, Close>(raw), path);
  if (code != SQLITE_OK || !raw)
    return error_of(Error::Kind::kIo, path, "cannot open: {}", sqlite3_errstr(code));
  sqlite3_busy_timeout(raw, 2000);
  out.lock_down();
  const auto probe = out.execute("SELECT count(*) FROM sqlite_master", {});
  if (!probe.ok()) return error_at(path, "is not a SQLite database: {}", probe.error().message);
  return out;
}

Result<SqlReader> SqlReader::from_csv(const std::string& path, const std::string& table) {
  MAKAR_TRY(const std::string bytes, read_file(path, kMaxCsvBytes));
  MAKAR_TRY(auto stream, ByteStream::from_memory(to_utf8(bytes, TextEncoding::kAuto), path));
  TableReader reader(std::move(stream), ',', {{"text", "1"}});
  std::vector<std::vector<std::string>> rows;
  BadRecords bad;
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record, bad));
    if (!found) break;
    auto& row = rows.emplace_back();
    for (const auto& [number, value] : record.value.items()) row.push_back(value.get<std::string>());
  }
  if (rows.size() < 2) return error_at(path, "has no rows below its header");
  const size_t width = rows[0].size();
  std::string columns, placeholders;
  std::vector<bool> numeric(width, true);
  double number = 0;
  for (size_t i = 0; i < width; ++i) {
    for (size_t r = 1; r < rows.size(); ++r)
      if (!rows[r][i].empty() && !is_number(rows[r][i], number)) numeric[i] = false;
    const bool repeated = std::any_of(
        rows[0].begin(), rows[0].begin() + static_cast<std::ptrdiff_t>(i),
        [&](const std::string& other) { return sqlite3_stricmp(other.c_str(), rows[0][i].c_str()) == 0; });
    if (rows[0][i].empty() || repeated) rows[0][i] = fmt::format("column_{}", i + 1);
    columns +=
        fmt::format("{}{} {}", i ? ", " : "", double_quoted(rows[0][i]), numeric[i] ? "NUMERIC" : "TEXT");
    placeholders += i ? ", ?" : "?";
  }
  sqlite3* raw = nullptr;
  sqlite3_open_v2(":memory:", &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  SqlReader out(std::unique_ptr<sqlite3, Close>(raw), path);
  const auto failed = [&] {
    return error_at(path, "cannot be imported as a table: {}", sqlite3_errmsg(raw));
  };
  const std::string create = fmt::format("CREATE TABLE {} ({}); BEGIN", double_quoted(table), columns);
  if (sqlite3_exec(raw, create.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return failed();
  const std::string insert = fmt::format("INSERT INTO {} VALUES ({})", double_quoted(table), placeholders);
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(raw, insert.c_str(), -1, &statement, nullptr) != SQLITE_OK) return failed();
  const Prepared prepared(statement);
  for (size_t r = 1; r < rows.size(); ++r) {
    for (size_t i = 0; i < width; ++i) {
      const std::string& cell = rows[r][i];
      const int at = static_cast<int>(i + 1);
      if (numeric[i] && cell.empty()) {
        sqlite3_bind_null(statement, at);
      } else {
        sqlite3_bind_text(statement, at, cell.data(), static_cast<int>(cell.size()), SQLITE_STATIC);
      }
    }
    if (sqlite3_step(statement) != SQLITE_DONE) return failed();
    sqlite3_reset(statement);
  }
  if (sqlite3_exec(raw, "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK) return failed();
  out.lock_down();
  return out;
}

Result<SqlReader> SqlReader::from_script(const std::string& script, bool repeatable) {
  sqlite3* raw = nullptr;
  sqlite3_open_v2(":memory:", &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  SqlReader out(std::unique_ptr<sqlite3, Close>(raw), "schema");
  out.lock_down();
  if (repeatable) out.require_repeatable();
  MAKAR_RETURN_IF_ERROR(out.execute_script(script));
  return out;
}

void SqlReader::require_repeatable() {
  if (work_) work_->require_repeatable(connection_.get());
}

Status SqlReader::execute_script(const std::string& script) const {
  if (script.size() > static_cast<size_t>(kMaxScriptBytes))
    return error_of(Error::Kind::kLimit, path_, "has {} bytes; expected at most {}", script.size(),
                    kMaxScriptBytes);
  if (script.find('\0') != std::string::npos) return error_at(path_, "has a zero byte");
  sqlite3* c = connection_.get();
  sqlite3_set_authorizer(c, nullptr, nullptr);
  sqlite3_exec(c, "PRAGMA query_only=0", nullptr, nullptr, nullptr);
  sqlite3_limit(c, SQLITE_LIMIT_SQL_LENGTH, kMaxScriptBytes);
  sqlite3_set_authorizer(c, authorize_script, work_.get());
  const SqlLimits limits;
  {
    const Limited limited(c, *work_, limits);
    if (sqlite3_exec(c, script.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
      return failure(limits).in(path_);
  }
  if (sqlite3_get_autocommit(c) == 0) return error_at(path_, "leaves a transaction open; add COMMIT");
  sqlite3_set_authorizer(c, nullptr, nullptr);
  lock_down();
  return Done{};
}

Error SqlReader::failure(const SqlLimits& limits) const {
  if (work_->timed_out())
    return error_of(Error::Kind::kLimit, "SQL", "took longer than {} s", limits.seconds);
  if (work_->out_of_memory())
    return error_of(Error::Kind::kLimit, "SQL", "took more than {} MiB of memory",
                    SqlWork::kMaxMemoryBytes >> 20);
  return error_at("SQL", "{}", quote(sqlite3_errmsg(connection_.get()), 400));
}

Result<SqlResult> SqlReader::execute(const std::string& sql, const SqlLimits& limits) const {
  sqlite3* c = connection_.get();
  const Limited limited(c, *work_, limits);
  const auto failed = [&] { return failure(limits); };
  if (sql.find('\0') != std::string::npos) return error_at("SQL", "has a zero byte");
  sqlite3_stmt* raw = nullptr;
  const char* tail = nullptr;
  if (sqlite3_prepare_v2(c, sql.data(), static_cast<int>(std::min<size_t>(sql.size(), INT32_MAX)), &raw,
                         &tail) != SQLITE_OK)
    return failed();
  const Prepared statement(raw);
  if (!raw) return error_at("SQL", "is empty; expected one SELECT statement");
  if (!sqlite3_stmt_readonly(raw))
    return error_at("SQL", "would change the database; expected a SELECT statement");
  if (!nothing_follows(c, tail, sql.data() + sql.size()))
    return error_at("SQL", "has more than one statement; expected one SELECT statement");
  const int width = sqlite3_column_count(raw);
  if (width == 0) return error_at("SQL", "returns no columns; expected a SELECT statement");
  SqlResult out;
  for (int i = 0; i < width; ++i) out.columns.push_back(to_valid_utf8(sqlite3_column_name(raw, i)));
  int64_t bytes = 0;
  for (;;) {
    const int code = sqlite3_step(raw);
    if (code == SQLITE_DONE) return out;
    if (code != SQLITE_ROW) return failed();
    if (static_cast<int64_t>(out.rows.size()) >= limits.rows) {
      out.truncated = true;
      return out;
    }
    auto& row = out.rows.emplace_back();
    std::string& key = out.keys.emplace_back();
    for (int i = 0; i < width; ++i) {
      add_key(raw, i, key);  // first: text_of() changes the type of a number
      row.push_back(text_of(raw, i));
      bytes += static_cast<int64_t>(row.back().size()) + 32;  // and the string object
      if (bytes <= limits.bytes) continue;
      if (out.rows.size() == 1)
        return error_of(Error::Kind::kLimit, "SQL", "a row has more than {} bytes", limits.bytes);
      out.rows.pop_back(), out.keys.pop_back();
      out.truncated = true;
      return out;
    }
  }
}

bool SqlReader::is_connected() const { return !postgres_ || postgres_->is_ready(); }

Result<SqlResult> SqlReader::run(const std::string& statement, const SqlLimits& limits) const {
  return postgres_ ? run_postgres(statement, limits) : execute(statement, limits);
}

Result<std::set<std::string>> SqlReader::reads(const std::string& sql) const {
  if (postgres_)
    return error_of(Error::Kind::kUnsupported, path_,
                    "PostgreSQL does not report which columns a statement reads");
  sqlite3* c = connection_.get();
  const SqlLimits limits;
  const Limited limited(c, *work_, limits);
  std::set<std::string> out;
  NotedColumns noted{*work_, out};
  sqlite3_set_authorizer(c, authorize_and_note, &noted);
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v2(
      c, sql.data(), static_cast<int>(std::min<size_t>(sql.size(), INT32_MAX)), &raw, nullptr);
  const Prepared statement(raw);
  sqlite3_set_authorizer(c, authorize_query, work_.get());
  if (code != SQLITE_OK) return failure(limits);
  if (!raw) return error_at("SQL", "is empty; expected one SELECT statement");
  return out;
}

Result<std::vector<SqlTable>> SqlReader::tables(int64_t rows) const {
  if (postgres_) return postgres_tables(rows);
  MAKAR_TRY(
      const auto names,
      execute(
          "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' "
          "ORDER BY name",
          {}));
  std::vector<SqlTable> out;
  for (const auto& row : names.rows) {
    SqlTable table{row[0], row[1], {}, {}, false};
    const auto sample =
        execute(fmt::format("SELECT * FROM {} LIMIT {}", double_quoted(row[0]), std::max<int64_t>(rows, 1)),
                {std::max<int64_t>(rows, 1)});
    if (!sample.ok()) continue;  // a broken view
    table.columns = sample->columns;
    if (rows > 0) table.sample = sample->rows;
    out.push_back(std::move(table));
  }
  return out;
}

}  // namespace makar
