// A small wrapper of SQLite: statements with bound values in, rows out.
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"

struct sqlite3;

namespace makar {

using SqlValue = std::variant<std::nullptr_t, int64_t, std::string>;
using SqlRow = std::vector<SqlValue>;

// One connection, for one thread at a time. Uses a write-ahead log and syncs after each transaction.
class Database {
 public:
  // Creates the file if absent; ":memory:" uses no file.
  static Result<Database> open(const std::string& path);

  Result<std::vector<SqlRow>> rows(const std::string& sql, const SqlRow& values = {}) const;
  Status run(const std::string& sql, const SqlRow& values = {}) const;
  Status script(const std::string& sql) const;  // several statements without bound values
  int64_t last_id() const;
  int64_t changed() const;  // rows changed by the last statement

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
  Database(std::unique_ptr<sqlite3, Close> connection, std::string path)
      : connection_(std::move(connection)), path_(std::move(path)) {}
  Error error(const char* doing) const;
  std::unique_ptr<sqlite3, Close> connection_;
  std::string path_;
};

int64_t sql_number(const SqlValue& value);  // 0 if not a number
std::string sql_text(const SqlValue& value);

}  // namespace makar
