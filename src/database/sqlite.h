// SQLite: one file, or memory.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>

#include "database/connection.h"

struct sqlite3;
struct sqlite3_stmt;

namespace makar {

struct DatabaseOptions {
  int64_t max_pages = 1 << 20;   // of 4 KiB
  int64_t max_value = 16 << 20;  // bytes of one value
  bool create = true;            // false: a missing file is an error
};

// Uses a write-ahead log and syncs after each transaction.
class Database : public SqlConnection {
 public:
  // ":memory:" uses no file.
  static Result<Database> open(const std::string& path, const DatabaseOptions& options = {});

  Status each(const std::string& sql, const SqlRow& values,
              const std::function<void(const SqlRow&)>& f) const override;
  Status script(const std::string& sql) const override;
  Status begin() const override { return run("BEGIN IMMEDIATE"); }
  Status begin_reading() const override { return run("BEGIN"); }
  int64_t last_id() const;
  int64_t changed() const;  // rows changed by the last statement

  using Transaction = SqlTransaction;

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;
  Database(std::unique_ptr<sqlite3, Close> connection, std::string path)
      : SqlConnection(std::move(path)), connection_(std::move(connection)) {}
  Error error(const char* failure) const;
  Result<sqlite3_stmt*> prepare(const std::string& sql) const;

  std::unique_ptr<sqlite3, Close> connection_;
  // Prepared statements by their text; destroyed before the connection.
  mutable std::unordered_map<std::string, Statement> prepared_;
};

}  // namespace makar
