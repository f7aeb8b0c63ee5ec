#include "database/connection.h"

namespace makar {

Result<std::vector<SqlRow>> SqlConnection::rows(const std::string& sql, const SqlRow& values) const {
  std::vector<SqlRow> out;
  MAKAR_RETURN_IF_ERROR(each(sql, values, [&](const SqlRow& row) { out.push_back(row); }));
  return out;
}

Status SqlConnection::run(const std::string& sql, const SqlRow& values) const {
  return each(sql, values, [](const SqlRow&) {});
}

Result<int64_t> SqlConnection::number(const std::string& sql, const SqlRow& values) const {
  MAKAR_TRY(const auto result, rows(sql, values));
  if (result.empty() || result[0].empty()) return error_at(path_, "a statement returned no number");
  return sql_number(result[0][0]);
}

SqlTransaction::~SqlTransaction() {
  if (open_) (void)connection_.run("ROLLBACK");
}

Status SqlTransaction::begin() {
  MAKAR_RETURN_IF_ERROR(connection_.begin());
  open_ = true;
  return Done{};
}

Status SqlTransaction::commit() {
  MAKAR_RETURN_IF_ERROR(connection_.run("COMMIT"));
  open_ = false;
  return Done{};
}

int64_t sql_number(const SqlValue& value) {
  const auto* number = std::get_if<int64_t>(&value);
  return number ? *number : 0;
}

std::string sql_text(const SqlValue& value) {
  if (const auto* blob = std::get_if<SqlBlob>(&value)) return blob->bytes;
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : std::string();
}

}  // namespace makar
