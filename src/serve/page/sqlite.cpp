#include "serve/page/sqlite.h"

#include <sqlite3.h>

namespace makar {
namespace {

constexpr int kBusyMilliseconds = 5000;  // timeout while another process locks the file

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

int bind(sqlite3_stmt* statement, int at, const SqlValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return sqlite3_bind_int64(statement, at, *number);
  if (const auto* text = std::get_if<std::string>(&value))
    return sqlite3_bind_text64(statement, at, text->data(), text->size(), SQLITE_STATIC, SQLITE_UTF8);
  return sqlite3_bind_null(statement, at);
}

SqlValue column(sqlite3_stmt* statement, int at) {
  switch (sqlite3_column_type(statement, at)) {
    case SQLITE_NULL:
      return nullptr;
    case SQLITE_INTEGER:
      return static_cast<int64_t>(sqlite3_column_int64(statement, at));
    default:
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, at));
      return std::string(text ? text : "", static_cast<size_t>(sqlite3_column_bytes(statement, at)));
  }
}

}  // namespace

void Database::Close::operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }

Error Database::error(const char* doing) const {
  const int code = sqlite3_errcode(connection_.get());
  return error_of(code == SQLITE_FULL || code == SQLITE_TOOBIG ? Error::Kind::kLimit : Error::Kind::kIo,
                  path_, "{}: {}", doing, sqlite3_errmsg(connection_.get()));
}

Result<Database> Database::open(const std::string& path) {
  sqlite3* raw = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  Database out(std::unique_ptr<sqlite3, Close>(raw), path);
  if (!raw) return error_of(Error::Kind::kIo, path, "cannot open: no memory");
  if (code != SQLITE_OK) return out.error("cannot open");
  sqlite3_busy_timeout(raw, kBusyMilliseconds);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, 16 << 20);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  MAKAR_CHECK_OK(
      out.script("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; "
                 "PRAGMA max_page_count=1048576;"));  // 4 GiB
  return out;
}

Result<std::vector<SqlRow>> Database::rows(const std::string& sql, const SqlRow& values) const {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(connection_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr) !=
      SQLITE_OK)
    return error("cannot read a statement");
  const std::unique_ptr<sqlite3_stmt, Finalize> statement(raw);
  for (size_t i = 0; i < values.size(); ++i)
    if (bind(raw, static_cast<int>(i + 1), values[i]) != SQLITE_OK) return error("cannot take a value");
  std::vector<SqlRow> out;
  for (;;) {
    const int code = sqlite3_step(raw);
    if (code == SQLITE_DONE) return out;
    if (code != SQLITE_ROW) return error("cannot store or find");
    SqlRow& row = out.emplace_back();
    for (int i = 0; i < sqlite3_column_count(raw); ++i) row.push_back(column(raw, i));
  }
}

Status Database::run(const std::string& sql, const SqlRow& values) const {
  MAKAR_TRY([[maybe_unused]] const auto none, rows(sql, values));
  return Done{};
}

Status Database::script(const std::string& sql) const {
  if (sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return error("cannot prepare the file");
  return Done{};
}

int64_t Database::last_id() const { return sqlite3_last_insert_rowid(connection_.get()); }
int64_t Database::changed() const { return sqlite3_changes(connection_.get()); }

Database::Transaction::~Transaction() {
  if (open_) (void)database_.run("ROLLBACK");
}

Status Database::Transaction::begin() {
  MAKAR_CHECK_OK(database_.run("BEGIN IMMEDIATE"));
  open_ = true;
  return Done{};
}

Status Database::Transaction::commit() {
  MAKAR_CHECK_OK(database_.run("COMMIT"));
  open_ = false;
  return Done{};
}

int64_t sql_number(const SqlValue& value) {
  const auto* number = std::get_if<int64_t>(&value);
  return number ? *number : 0;
}

std::string sql_text(const SqlValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : std::string();
}

}  // namespace makar
