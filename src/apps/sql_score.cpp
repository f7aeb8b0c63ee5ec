#include "apps/sql_score.h"

#include <algorithm>

#include "base/sha256.h"
#include "metrics/words.h"

namespace makar {
namespace {

// The same for equal rows.
std::string hash_of(SqlResult result, bool in_order) {
  if (!in_order) std::sort(result.keys.begin(), result.keys.end());
  Sha256 sum;
  for (const std::string& row : result.keys) sum.add(row + "\n");
  return sum.hex();
}

// Whether the statement itself, not a query inside of it, has ORDER BY.
bool is_ordered(const std::string& sql) {
  const std::string text = lowered(sql);
  const size_t order = text.rfind("order by");
  return order != text.npos &&
         std::count(text.begin() + static_cast<std::ptrdiff_t>(order), text.end(), ')') <=
             std::count(text.begin() + static_cast<std::ptrdiff_t>(order), text.end(), '(');
}

bool is_expected(const SqlResult& actual, const ExpectedRows& expected) {
  return !actual.truncated && actual.columns.size() == expected.columns &&
         hash_of(actual, expected.in_order) == expected.hash;
}

}  // namespace

Result<ExpectedRows> expected_rows(const SqlReader& database, const std::string& reference,
                                   const SqlLimits& limits) {
  MAKAR_TRY(const SqlResult rows, database.run(reference, limits));
  if (rows.truncated)
    return error_of(Error::Kind::kLimit, "SQL",
                    "returns more than {} rows, or rows of more than {} MiB; add LIMIT or an aggregate",
                    limits.rows, limits.bytes >> 20);
  const bool in_order = is_ordered(reference);
  return ExpectedRows{rows.columns.size(), in_order, hash_of(rows, in_order)};
}

Result<bool> returns_rows(const SqlReader& database, const std::string& statement,
                          const ExpectedRows& expected, const SqlLimits& limits) {
  const auto actual = database.run(statement, limits);
  if (!actual.ok() && !database.is_connected()) return actual.error();
  return actual.ok() && is_expected(*actual, expected);
}

Result<SqlScore> score_sql(const SqlReader& database, const std::string& predicted,
                           const std::string& reference, const SqlLimits& limits) {
  const auto expected = expected_rows(database, reference, limits);
  if (!expected.ok()) return expected.error().in("reference");
  SqlScore out;
  const auto actual = database.run(predicted, limits);
  out.runs = actual.ok();
  if (!actual.ok()) return out;
  out.execution = is_expected(*actual, *expected);
  const auto expected_reads = database.reads(reference), reads = database.reads(predicted);
  out.schema = expected_reads.ok() && reads.ok() && *reads == *expected_reads;
  return out;
}

}  // namespace makar
