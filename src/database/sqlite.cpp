#include "database/sqlite.h"

#include <sqlite3.h>

namespace makar {
namespace {

constexpr int kBusyMilliseconds = 5000;  // timeout while another process locks the file
constexpr size_t kMaxPreparedStatements = 256;

int bind(sqlite3_stmt* statement, int at, const SqlValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return sqlite3_bind_int64(statement, at, *number);
  if (const auto* text = std::get_if<std::string>(&value))
    return sqlite3_bind_text64(statement, at, text->data(), text->size(), SQLITE_STATIC, SQLITE_UTF8);
  if (const auto* number = std::get_if<double>(&value)) return sqlite3_bind_double(statement, at, *number);
  if (const auto* blob = std::get_if<SqlBlob>(&value))
    return sqlite3_bind_blob64(statement, at, blob->bytes.data(), blob->bytes.size(), SQLITE_STATIC);
  return sqlite3_bind_null(statement, at);
}

SqlValue column(sqlite3_stmt* statement, int at) {
  switch (sqlite3_column_type(statement, at)) {
    case SQLITE_NULL:
      return nullptr;
    case SQLITE_INTEGER:
      return static_cast<int64_t>(sqlite3_column_int64(statement, at));
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, at);
    case SQLITE_BLOB: {
      const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, at));
      return SqlBlob{
          std::string(bytes ? bytes : "", static_cast<size_t>(sqlite3_column_bytes(statement, at)))};
    }
    default:
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, at));
      return std::string(text ? text : "", static_cast<size_t>(sqlite3_column_bytes(statement, at)));
  }
}

// Resets a prepared statement after use: releases its locks and bound values.
struct Reset {
  sqlite3_stmt* statement;
  ~Reset() {
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
  }
};

}  // namespace

void Database::Close::operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
void Database::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Error Database::error(const char* failure) const {
  const int code = sqlite3_errcode(connection_.get());
  return error_of(code == SQLITE_FULL || code == SQLITE_TOOBIG ? Error::Kind::kLimit : Error::Kind::kIo,
                  path(), "{}: {}", failure, sqlite3_errmsg(connection_.get()));
}

Result<Database> Database::open(const std::string& path, const DatabaseOptions& options) {
  sqlite3* raw = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | (options.create ? SQLITE_OPEN_CREATE : 0) | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  Database out(std::unique_ptr<sqlite3, Close>(raw), path);
  if (!raw) return error_of(Error::Kind::kIo, path, "cannot open: out of memory");
  if (code != SQLITE_OK) return out.error("cannot open");
  sqlite3_busy_timeout(raw, kBusyMilliseconds);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, static_cast<int>(options.max_value));
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  MAKAR_RETURN_IF_ERROR(out.script(fmt::format(
      "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA max_page_count={};",
      options.max_pages)));
  return out;
}

Result<sqlite3_stmt*> Database::prepare(const std::string& sql) const {
  if (const auto found = prepared_.find(sql); found != prepared_.end()) return found->second.get();
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(connection_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr) !=
      SQLITE_OK)
    return error("cannot prepare a statement");
  Statement statement(raw);
  if (prepared_.size() >= kMaxPreparedStatements) prepared_.clear();
  prepared_[sql] = std::move(statement);
  return raw;
}

Status Database::each(const std::string& sql, const SqlRow& values,
                      const std::function<void(const SqlRow&)>& f) const {
  MAKAR_TRY(sqlite3_stmt* const statement, prepare(sql));
  const Reset reset{statement};
  for (size_t i = 0; i < values.size(); ++i)
    if (bind(statement, static_cast<int>(i + 1), values[i]) != SQLITE_OK) return error("cannot bind a value");
  for (SqlRow row;;) {
    const int code = sqlite3_step(statement);
    if (code == SQLITE_DONE) return Done{};
    if (code != SQLITE_ROW) return error("cannot run a statement");
    row.clear();
    for (int i = 0; i < sqlite3_column_count(statement); ++i) row.push_back(column(statement, i));
    f(row);
  }
}

Status Database::script(const std::string& sql) const {
  if (sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return error("cannot run a script");
  return Done{};
}

int64_t Database::last_id() const { return sqlite3_last_insert_rowid(connection_.get()); }
int64_t Database::changed() const { return sqlite3_changes(connection_.get()); }

}  // namespace makar
