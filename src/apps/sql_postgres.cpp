// Untrusted SQL on PostgreSQL. Three measures: a role that may only read (checked), a read-only transaction
// that is always rolled back, and one statement as a subquery of makar's own SELECT, where anything but a
// query is a syntax error.
#include <algorithm>
#include <chrono>

#include "apps/sql_reader.h"
#include "apps/sql_value.h"
#include "base/lower_ascii.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "database/postgres.h"

namespace makar {
namespace {

constexpr size_t kMaxQueryBytes = 64 << 10;
constexpr size_t kMaxColumns = 500;

// A role that could read files, run programs or change roles on the server reaches beyond a transaction.
Status check_role(const Postgres& connection) {
  MAKAR_TRY(const auto rows,
            connection.rows("SELECT session_user::text, rolsuper OR rolreplication OR rolcreaterole OR "
                            "pg_has_role(oid, 'pg_execute_server_program', 'member') OR "
                            "pg_has_role(oid, 'pg_read_server_files', 'member') OR "
                            "pg_has_role(oid, 'pg_write_server_files', 'member') OR "
                            "pg_has_role(oid, 'pg_signal_backend', 'member') FROM pg_roles WHERE rolname = "
                            "session_user"));
  if (rows.size() == 1 && sql_number(rows[0][1]) == 0) return Done{};
  return error_of(Error::Kind::kUnsupported, connection.path(),
                  "the role {} may do more than read and write tables, and a statement of a model would run "
                  "with its rights; connect as a role that may only read: CREATE ROLE reader LOGIN; GRANT "
                  "pg_read_all_data TO reader",
                  rows.empty() ? "" : quote(sql_text(rows[0][0])));
}

// A role may end and cancel the statements of its other sessions, such as those of another run. An identifier
// with Unicode escapes could hide these names.
Status check_names(const std::string& sql) {
  const std::string lower = lower_ascii(sql);
  for (const char* denied : {"pg_terminate_backend", "pg_cancel_backend", "u&\""})
    if (lower.find(denied) != std::string::npos)
      return error_at("SQL", "has {}, which is not allowed", denied);
  return Done{};
}

Error in_sql(const Error& error) { return error_of(error.kind, "SQL", "{}", error.message); }

// Ends a run: rolls back everything that it did, and drops locks and settings of the session.
struct RunEnd {
  const Postgres& connection;
  ~RunEnd() {
    (void)connection.run("ROLLBACK");
    (void)connection.run("DISCARD ALL");
  }
};

}  // namespace

Result<SqlReader> SqlReader::open_postgres(const std::string& address) {
  MAKAR_TRY(Postgres connection, Postgres::open(address));
  MAKAR_RETURN_IF_ERROR(check_role(connection));
  SqlReader out(nullptr, connection.path());
  out.postgres_ = std::make_shared<const Postgres>(std::move(connection));
  return out;
}

Result<SqlResult> SqlReader::run_postgres(const std::string& statement, const SqlLimits& limits) const {
  auto out = run_postgres_once(statement, limits);
  if (out.ok() || postgres_->is_ready()) return out;
  // The connection is lost: by a restart of the server, for example, or by the statement itself.
  const auto reconnect = [&]() -> Status {
    MAKAR_RETURN_IF_ERROR(postgres_->reconnect());
    return check_role(*postgres_);
  };
  MAKAR_RETURN_IF_ERROR(reconnect());
  out = run_postgres_once(statement, limits);
  if (out.ok() || postgres_->is_ready()) return out;
  MAKAR_RETURN_IF_ERROR(reconnect());
  return error_at("SQL", "ends the connection to the database");
}

Result<SqlResult> SqlReader::run_postgres_once(const std::string& statement, const SqlLimits& limits) const {
  std::string sql = statement;
  while (!sql.empty() && std::string_view(" \t\r\n;").find(sql.back()) != std::string_view::npos)
    sql.pop_back();
  if (sql.empty()) return error_at("SQL", "is empty; expected one SELECT statement");
  if (sql.find('\0') != std::string::npos) return error_at("SQL", "has a zero byte");
  if (sql.size() > kMaxQueryBytes)
    return error_of(Error::Kind::kLimit, "SQL", "has {} bytes; at most {} are read", sql.size(),
                    kMaxQueryBytes);
  MAKAR_RETURN_IF_ERROR(check_names(sql));
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::microseconds(static_cast<int64_t>(limits.seconds * 1e6));
  const RunEnd end{*postgres_};
  MAKAR_RETURN_IF_ERROR(postgres_->run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"));
  MAKAR_RETURN_IF_ERROR(
      postgres_->run(fmt::format("SET LOCAL statement_timeout = {}",
                                 std::max<int64_t>(1, static_cast<int64_t>(limits.seconds * 1000)))));
  MAKAR_RETURN_IF_ERROR(
      postgres_->run("SELECT 1"));  // after the first query a transaction cannot become writable
  // Parses the statement without running it: an incomplete statement, or several, are errors.
  const auto columns = postgres_->describe(sql);
  if (!columns.ok()) return in_sql(columns.error());
  if (columns->empty()) return error_at("SQL", "returns no columns; expected a SELECT statement");
  if (columns->size() > kMaxColumns)
    return error_of(Error::Kind::kLimit, "SQL", "returns {} columns; at most {} are read", columns->size(),
                    kMaxColumns);
  SqlResult out;
  for (const std::string& name : *columns) out.columns.push_back(to_valid_utf8(name));
  const int64_t max_cell_characters =
      std::max<int64_t>(1000, limits.bytes / static_cast<int64_t>(columns->size()));
  std::string values, names;
  for (size_t i = 0; i < columns->size(); ++i) {
    values += fmt::format("{}left(CAST(c{} AS text), {})", i ? ", " : "", i, max_cell_characters);
    names += fmt::format("{}c{}", i ? ", " : "", i);
  }
  int64_t bytes = 0;
  std::vector<std::string> ignored;
  const Status status = postgres_->stream(
      fmt::format("SELECT {} FROM (\n{}\n) AS answer ({}) LIMIT {}", values, sql, names, limits.rows + 1),
      deadline, ignored, [&](const std::vector<Postgres::Cell>& row) {
        if (static_cast<int64_t>(out.rows.size()) >= limits.rows || bytes > limits.bytes) {
          out.truncated = true;
          return false;
        }
        auto& cells = out.rows.emplace_back();
        std::string& key = out.keys.emplace_back();
        for (const Postgres::Cell& one : row) {
          one.bytes ? add_printed_key(key, {one.bytes, one.size}) : add_null_key(key);
          cells.push_back(one.bytes ? to_valid_utf8({one.bytes, one.size}) : "NULL");
          bytes += static_cast<int64_t>(cells.back().size()) + 32;  // and the string object
        }
        return true;
      });
  if (status.ok()) return out;
  if (std::chrono::steady_clock::now() >= deadline)
    return error_of(Error::Kind::kLimit, "SQL", "took longer than {} s", limits.seconds);
  return in_sql(status.error());
}

Result<std::vector<SqlTable>> SqlReader::postgres_tables(int64_t rows) const {
  MAKAR_TRY(
      const auto tables,
      postgres_->rows("SELECT CAST(c.oid AS BIGINT), CAST(c.relname AS text) FROM pg_class c JOIN "
                      "pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v', 'm', 'p', "
                      "'f') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' AND "
                      "pg_table_is_visible(c.oid) AND has_table_privilege(c.oid, 'SELECT') ORDER BY "
                      "CAST(c.relname AS text) COLLATE \"C\""));
  std::vector<SqlTable> out;
  for (const SqlRow& row : tables) {
    SqlTable table;
    table.name = sql_text(row[1]);
    table.folds_case = true;
    MAKAR_TRY(const auto parts,
              postgres_->rows("SELECT CAST(attname AS text), quote_ident(attname) || ' ' || "
                              "format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = ? AND "
                              "attnum > 0 AND NOT attisdropped ORDER BY attnum",
                              {row[0]}));
    std::vector<std::string> definitions;
    for (const SqlRow& part : parts) {
      table.columns.push_back(sql_text(part[0]));
      definitions.push_back(sql_text(part[1]));
    }
    MAKAR_TRY(
        const auto keys,
        postgres_->rows("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = ? AND contype "
                        "IN ('p', 'f') ORDER BY contype DESC, conname",
                        {row[0]}));
    for (const SqlRow& key : keys) definitions.push_back(sql_text(key[0]));
    table.definition =
        fmt::format("CREATE TABLE {} ({})", double_quoted(table.name), fmt::join(definitions, ", "));
    if (rows > 0) {
      auto sample =
          run_postgres(fmt::format("SELECT * FROM {} LIMIT {}", double_quoted(table.name), rows), {rows});
      if (!sample.ok()) continue;  // a broken view
      table.sample = std::move(sample->rows);
    }
    out.push_back(std::move(table));
  }
  return out;
}

}  // namespace makar
