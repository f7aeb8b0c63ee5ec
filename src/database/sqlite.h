// A small wrapper of SQLite: statements with bound values in, rows out.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace makar {

// A blob.
struct SqlBlob {
  std::string bytes;
  bool operator==(const SqlBlob&) const = default;
};
using SqlValue = std::variant<std::nullptr_t, int64_t, std::string, double, SqlBlob>;
using SqlRow = std::vector<SqlValue>;

struct DatabaseOptions {
  int64_t max_pages = 1 << 20;   // of 4 KiB
  int64_t max_value = 16 << 20;  // bytes of one value
  bool create = true;            // false: a missing file is an error
};

// One connection, for one thread at a time. Uses a write-ahead log and syncs after each transaction.
class Database {
 public:
  // ":memory:" uses no file.
  static Result<Database> open(const std::string& path, const DatabaseOptions& options = {});

  Result<std::vector<SqlRow>> rows(const std::string& sql, const SqlRow& values = {}) const;
  // Calls f with each row without keeping it. f must not use this connection.
  Status each(const std::string& sql, const SqlRow& values,
              const std::function<void(const SqlRow&)>& f) const;
  Status run(const std::string& sql, const SqlRow& values = {}) const;
  Status script(const std::string& sql) const;  // several statements without bound values
  int64_t last_id() const;
  int64_t changed() const;  // rows changed by the last statement
  const std::string& path() const { return path_; }

  // Rolls back on destruction unless committed.
  class Transaction {
   public:
    explicit Transaction(const Database& database) : database_(database) {}
    ~Transaction();
    Transaction(const Transaction&) = delete;
    Status begin();
    Status commit();

   private:
    const Database& database_;
    bool open_ = false;
  };

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;
  Database(std::unique_ptr<sqlite3, Close> connection, std::string path)
      : connection_(std::move(connection)), path_(std::move(path)) {}
  Error error(const char* doing) const;
  Result<sqlite3_stmt*> prepare(const std::string& sql) const;

  std::unique_ptr<sqlite3, Close> connection_;
  std::string path_;
  // Prepared statements by their text; destroyed before the connection.
  mutable std::unordered_map<std::string, Statement> prepared_;
};

int64_t sql_number(const SqlValue& value);    // 0 if not a whole number
std::string sql_text(const SqlValue& value);  // "" if neither text nor a blob

}  // namespace makar
