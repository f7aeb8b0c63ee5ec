#include "apps/sql_score.h"

#include <algorithm>
#include <charconv>

#include "metrics/words.h"

namespace makar {
namespace {

// 3, 3.0 and 3e0 are the same number.
std::string compared_cell(const std::string& cell) {
  double value = 0;
  const auto [end, status] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (status != std::errc() || end != cell.data() + cell.size()) return cell;
  return fmt::format("{:.10g}", value == 0 ? 0.0 : value);
}

std::vector<std::vector<std::string>> compared_rows(const SqlResult& result, bool in_order) {
  auto out = result.rows;
  for (auto& row : out)
    for (std::string& cell : row) cell = compared_cell(cell);
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
  return a.columns.size() == b.columns.size() && a.more == b.more &&
         compared_rows(a, in_order) == compared_rows(b, in_order);
}

Result<SqlScore> score_sql(const SqlReader& database, const std::string& predicted,
                           const std::string& reference, const SqlLimits& limits) {
  const auto wanted = database.run(reference, limits);
  if (!wanted.ok()) return wanted.error().in("reference");
  const auto wanted_reads = database.reads(reference);
  SqlScore out;
  const auto given = database.run(predicted, limits);
  out.runs = given.ok();
  if (!given.ok()) return out;
  out.execution = same_rows(*given, *wanted, is_ordered(reference));
  const auto reads = database.reads(predicted);
  out.schema = wanted_reads.ok() && reads.ok() && *reads == *wanted_reads;
  return out;
}

}  // namespace makar
