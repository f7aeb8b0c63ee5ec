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
std::string shown_postgres_address(const std::string& address);

class Postgres : public SqlConnection {
 public:
  // An address in libpq's format; libpq's environment variables (PGPASSWORD, ...) supply what it omits.
  static Result<Postgres> open(const std::string& address);

  Status each(const std::string& sql, const SqlRow& values,
              const std::function<void(const SqlRow&)>& f) const override;
  Status script(const std::string& sql) const override;
  // Writers of the tables of makar wait for each other: ids of later transactions are larger.
  Status begin() const override;
  Status begin_reading() const override;

  // Runs one statement and hands over the rows as text, one at a time; NULL is a null pointer. Stops without
  // an error when `f` returns false, and with one at the deadline. `columns` gets the names, before the rows.
  struct Cell {
    const char* bytes = nullptr;
    size_t size = 0;
  };
  Status stream(const std::string& sql, std::chrono::steady_clock::time_point deadline,
                std::vector<std::string>& columns,
                const std::function<bool(const std::vector<Cell>&)>& f) const;
  // The names of the columns of a statement that is not run. An error if it is none or several statements.
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
