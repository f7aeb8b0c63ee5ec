// A connection to a database: statements with bound values in, rows out. SQLite (sqlite.h) or PostgreSQL
// (postgres.h).
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"

namespace makar {

// The bytes of a BLOB or BYTEA column.
struct SqlBlob {
  std::string bytes;
  bool operator==(const SqlBlob&) const = default;
};
using SqlValue = std::variant<std::nullptr_t, int64_t, std::string, double, SqlBlob>;
using SqlRow = std::vector<SqlValue>;

int64_t sql_number(const SqlValue& value);    // 0 if not an integer
std::string sql_text(const SqlValue& value);  // "" if neither text nor a blob

// For one thread at a time. Values are written as ? in a statement.
class SqlConnection {
 public:
  explicit SqlConnection(std::string path) : path_(std::move(path)) {}
  virtual ~SqlConnection() = default;
  SqlConnection(SqlConnection&&) = default;
  SqlConnection& operator=(SqlConnection&&) = default;

  // Calls f with each row without keeping it. f must not use this connection.
  virtual Status each(const std::string& sql, const SqlRow& values,
                      const std::function<void(const SqlRow&)>& f) const = 0;
  virtual Status script(const std::string& sql) const = 0;  // several statements without bound values
  // Begins a transaction that changes the database; other writers wait.
  virtual Status begin() const = 0;
  // Begins a transaction that only reads, from one state of the database.
  virtual Status begin_reading() const = 0;

  Result<std::vector<SqlRow>> rows(const std::string& sql, const SqlRow& values = {}) const;
  Status run(const std::string& sql, const SqlRow& values = {}) const;
  // A statement that returns one number, such as INSERT ... RETURNING id.
  Result<int64_t> number(const std::string& sql, const SqlRow& values = {}) const;
  // The file, or the server without its password.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Rolls back on destruction unless committed.
class SqlTransaction {
 public:
  explicit SqlTransaction(const SqlConnection& connection) : connection_(connection) {}
  ~SqlTransaction();
  SqlTransaction(const SqlTransaction&) = delete;
  Status begin();
  Status commit();

 private:
  const SqlConnection& connection_;
  bool open_ = false;
};

}  // namespace makar
