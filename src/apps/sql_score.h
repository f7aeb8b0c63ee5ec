// Evaluation of generated SQL: by its result on the database, and by the tables and columns it reads.
#pragma once
#include "apps/sql_reader.h"

namespace makar {

struct SqlScore {
  bool runs = false;       // the predicted statement runs
  bool execution = false;  // it returns the rows of the reference
  bool schema = false;     // it reads the same tables and columns; always false in PostgreSQL
};
// Rows are compared without column names, numbers by value, in any order unless the reference has ORDER BY at
// its end. Errors: the reference itself does not run.
Result<SqlScore> score_sql(const SqlReader& database, const std::string& predicted,
                           const std::string& reference, const SqlLimits& limits = {});

bool same_rows(const SqlResult& a, const SqlResult& b, bool in_order);

}  // namespace makar
