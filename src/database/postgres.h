// PostgreSQL through libpq, with the extended protocol only: one statement at a time, with bound values.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "database/connection.h"

struct pg_conn;
struct pg_result;

namespace makar {

// Whether a path is the address of a PostgreSQL database: postgresql://... or postgres://...
bool is_postgres_address(const std::string& path);
// The address for messages: host, port and database, without password and options.
std::string postgres_address_without_password(const std::string& address);
bool has_postgres_password(const std::string& address);

class Postgres : public SqlConnection {
 public:
  // An address in libpq's format; libpq's environment variables (PGPASSWORD, ...) supply what it omits.
  static Result<Postgres> open(const std::string& address);

  Status each(const std::string& sql, const SqlRow& values,
              const std::function<void(const SqlRow&)>& f) const override;
  Status script(const std::string& sql) const override;
  // Whether the connection is there and waits for a statement, outside of a transaction.
  bool is_ready() const;
  // Connects again, with the same address, in a new session.
  Status reconnect() const;
  // Takes an advisory lock: transactions that write run one at a time, so ids increase in commit order.
  Status begin() const override;
  Status begin_reading() const override;

  // Runs one statement and calls `f` with each row as text; NULL is a null pointer. Stops without an error
  // when `f` returns false, and with an error at the deadline. `columns` gets the names before the first row.
  struct Cell {
    const char* bytes = nullptr;
    size_t size = 0;
  };
  Status stream(const std::string& sql, std::chrono::steady_clock::time_point deadline,
                std::vector<std::string>& columns,
                const std::function<bool(const std::vector<Cell>&)>& f) const;
  // The column names of a statement, without running it. An error unless `sql` is exactly one statement.
  Result<std::vector<std::string>> describe(const std::string& sql) const;

 private:
  struct Close {
    void operator()(pg_conn* connection) const;
  };
  Postgres(std::unique_ptr<pg_conn, Close> connection, std::string path)
      : SqlConnection(std::move(path)), connection_(std::move(connection)) {}
  Error error(const pg_result* result) const;

  std::unique_ptr<pg_conn, Close> connection_;
};

}  // namespace makar
