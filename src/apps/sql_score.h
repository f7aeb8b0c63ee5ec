// Evaluation of generated SQL: by its result on the database, and by the tables and columns it reads.
#pragma once
#include "apps/sql_reader.h"

namespace makar {

// The rows of a reference statement, as a hash. Rows are compared without column names, numbers by value, in
// any order unless the reference has ORDER BY at its end.
struct ExpectedRows {
  size_t columns = 0;
  bool in_order = false;
  std::string hash;
};
// Errors: the reference does not run, or returns more than the limits allow.
Result<ExpectedRows> expected_rows(const SqlReader& database, const std::string& reference,
                                   const SqlLimits& limits = {});
// Whether a statement runs and returns these rows. Error: the database cannot be reached.
Result<bool> returns_rows(const SqlReader& database, const std::string& statement,
                          const ExpectedRows& expected, const SqlLimits& limits = {});

struct SqlScore {
  bool runs = false;       // the predicted statement runs
  bool execution = false;  // it returns the rows of the reference
  bool schema = false;     // it reads the same tables and columns; always false in PostgreSQL
};
// Errors: those of expected_rows().
Result<SqlScore> score_sql(const SqlReader& database, const std::string& predicted,
                           const std::string& reference, const SqlLimits& limits = {});

}  // namespace makar
