// Runs untrusted SQL, written by a model or a user, on a SQLite or PostgreSQL database that it cannot change.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"

struct sqlite3;

namespace makar {

class Postgres;
class SqlWork;

struct SqlLimits {
  int64_t rows = 1000;
  double seconds = 5;
  int64_t bytes = 16 << 20;  // of the result
};

struct SqlResult {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // as text; NULL is "NULL"
  std::vector<std::string> keys;               // equal for rows of equal values (sql_value.h)
  bool truncated = false;                      // the limit cut rows off
};

struct SqlTable {
  std::string name, definition;  // definition: the CREATE statement
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> sample;  // the first rows
  bool folds_case = false;                       // names with capitals must be quoted (PostgreSQL)
};

// SQLite itself prevents changes, not a check of the text: the file is opened read-only, an authorizer allows
// reading tables and calling functions without side effects and denies everything else (writing, ATTACH,
// PRAGMA, extensions), and work, time, memory, rows and sizes are limited. For PostgreSQL see
// sql_postgres.cpp. Not thread-safe.
class SqlReader {
 public:
  // A SQLite file, or the address of a PostgreSQL database (postgresql://...).
  static Result<SqlReader> open(const std::string& path);
  // A database in memory with one table, from the bytes of a CSV file in any encoding; numeric columns get
  // numbers.
  static Result<SqlReader> from_csv(const std::string& path, const std::string& table);
  // A SQLite database in memory, made by the statements of an untrusted script: tables, views, indices and
  // rows. Its size, time and memory are limited. `repeatable`: as require_repeatable(), for the script too.
  static Result<SqlReader> from_script(const std::string& script, bool repeatable = false);
  // From now on functions whose results differ from run to run (random, the current time) are errors. Has no
  // effect in PostgreSQL.
  void require_repeatable();

  // Tables and views with `rows` sample rows each.
  Result<std::vector<SqlTable>> tables(int64_t rows = 3) const;
  // False after run() has lost the connection to a server and could not make a new one.
  bool is_connected() const;
  // Runs one SELECT (or WITH ... SELECT, VALUES; EXPLAIN in SQLite). Errors are the database's, or the limit
  // that was reached.
  Result<SqlResult> run(const std::string& statement, const SqlLimits& limits = {}) const;
  // The columns that a statement reads, as "table.column" in lower case ("table." for count(*)), as SQLite
  // resolves them. Nothing is run. Not supported in PostgreSQL, which does not report them.
  Result<std::set<std::string>> reads(const std::string& statement) const;
  // The SQL dialect of the statements.
  const char* dialect() const { return postgres_ ? "PostgreSQL" : "SQLite"; }

 private:
  static Result<SqlReader> open_postgres(const std::string& address);
  Result<SqlResult> run_postgres(const std::string& statement, const SqlLimits& limits) const;
  Result<SqlResult> run_postgres_once(const std::string& statement, const SqlLimits& limits) const;
  Result<std::vector<SqlTable>> postgres_tables(int64_t rows) const;
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  SqlReader(std::unique_ptr<sqlite3, Close> connection, std::string path);
  void lock_down() const;
  void make_json_tables() const;
  Result<SqlResult> execute(const std::string& statement, const SqlLimits& limits) const;
  Status execute_script(const std::string& script) const;
  Error failure(const SqlLimits& limits) const;  // of the last statement
  std::shared_ptr<SqlWork> work_;                // of SQLite; destroyed after the connection
  std::unique_ptr<sqlite3, Close> connection_;   // null: PostgreSQL
  std::shared_ptr<const Postgres> postgres_;
  std::string path_;
};

}  // namespace makar
