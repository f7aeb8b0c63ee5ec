#include "apps/sql_score.h"

#include <algorithm>
#include <charconv>

#include "metrics/words.h"

namespace makar {
namespace {

// 3, 3.0 and 3e0 are the same number.
std::string normalized_cell(const std::string& cell) {
  double value = 0;
  const auto [end, status] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (status != std::errc() || end != cell.data() + cell.size()) return cell;
  return fmt::format("{:.10g}", value == 0 ? 0.0 : value);
}

std::vector<std::vector<std::string>> normalized_rows(const SqlResult& result, bool in_order) {
  auto out = result.rows;
  for (auto& row : out)
    for (std::string& cell : row) cell = normalized_cell(cell);
  if (!in_order) std::sort(out.begin(), out.end());
  return out;
}

// Whether the statement itself, not a query inside of it, has ORDER BY.
bool is_ordered(const std::string& sql) {
  const std::string text = lowered(sql);
  const size_t order = text.rfind("order by");
  return order != text.npos &&
         std::count(text.begin() + static_cast<std::ptrdiff_t>(order), text.end(), ')') <=
             std::count(text.begin() + static_cast<std::ptrdiff_t>(order), text.end(), '(');
}

}  // namespace

bool same_rows(const SqlResult& a, const SqlResult& b, bool in_order) {
  return a.columns.size() == b.columns.size() && a.truncated == b.truncated &&
         normalized_rows(a, in_order) == normalized_rows(b, in_order);
}

Result<SqlScore> score_sql(const SqlReader& database, const std::string& predicted,
                           const std::string& reference, const SqlLimits& limits) {
  const auto expected = database.run(reference, limits);
  if (!expected.ok()) return expected.error().in("reference");
  const auto expected_reads = database.reads(reference);
  SqlScore out;
  const auto actual = database.run(predicted, limits);
  out.runs = actual.ok();
  if (!actual.ok()) return out;
  out.execution = same_rows(*actual, *expected, is_ordered(reference));
  const auto reads = database.reads(predicted);
  out.schema = expected_reads.ok() && reads.ok() && *reads == *expected_reads;
  return out;
}

}  // namespace makar
