#include "nets/table.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/quote.h"
#include "data/byte_stream.h"

namespace makar {
namespace {

constexpr size_t kMaxOneHotValues = 64;  // distinct values of a column that is not numeric
constexpr size_t kMaxRows = size_t{1} << 24;
constexpr size_t kMaxClasses = 4096, kMaxColumns = 4096;

bool is_missing(const std::string& text) {
  return text.empty() || text == "NA" || text == "nan" || text == "NaN" || text == "?" || text == "null";
}

// Mean and deviation; a constant has deviation 1.
std::pair<double, double> moments(const std::vector<double>& values) {
  double mean = 0, square = 0;
  for (const double v : values) mean += v / static_cast<double>(values.size());
  for (const double v : values) square += (v - mean) * (v - mean) / static_cast<double>(values.size());
  return {mean, square > 0 ? std::sqrt(square) : 1};
}

// Why a table has no rows. A header without the target is not recognised as a header, so the reader's reasons
// would name the columns of a table without a header; the file's first line is shown instead.
std::string why_empty(const std::string& path, const BadRecords& bad) {
  const auto stream = ByteStream::open(path);
  if (!stream.ok()) return stream.error().text();
  std::string first(200, '\0');
  const auto size = (*stream)->read(first);
  if (!size.ok()) return size.error().text();
  first.resize(std::min(*size, first.find('\n')));
  if (first.empty()) return "it is empty";
  const bool wrong_header =
      bad.reported.empty() || bad.reported[0].find("its fields are") != std::string::npos;
  return wrong_header ? "its first line is " + quote(first) : bad.reported[0];
}

}  // namespace

std::optional<double> number_in(const std::string& text) {
  if (text.empty() || std::isspace(static_cast<unsigned char>(text[0]))) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

namespace {

// Reads a table whose header is recognised by `header_column`, which is the target or another column. If
// `target_required`, rows without a target are bad.
Result<std::vector<TableRow>> read_rows(const std::string& path, const std::string& header_column,
                                        const std::string& target, bool target_required, BadRecords& bad) {
  MAKAR_TRY(auto reader, RecordReader::open({DataPath(path, {{"target", header_column}})}));
  std::vector<TableRow> out;
  for (DataRecord record;;) {
    const auto found = reader.next(record);
    if (!found.ok() && out.empty() && found.error().message.find("no known field") != std::string::npos)
      return error_at(found.error().place, "has no column {}; {}", quote(header_column),
                      why_empty(path, reader.bad()));
    if (!found.ok()) return found.error();
    if (!*found) break;
    if (out.size() >= kMaxRows)
      return error_of(Error::Kind::kLimit, record.place(),
                      "the table has more than {} rows; use a part of it", kMaxRows);
    TableRow row;
    for (const auto& [name, value] : record.value.items()) {
      const std::string text = value.is_string() ? value.get<std::string>()
                               : value.is_null() ? ""
                                                 : value.dump();
      const std::string& column = name == "target" ? header_column : name;
      (column == target ? row.target : row.fields[column]) = text;
    }
    if (target_required && is_missing(row.target)) {
      reader.bad().add_once(record.place(), "has no value in the column " + quote(target));
      continue;
    }
    out.push_back(std::move(row));
  }
  bad = reader.bad();
  if (out.empty())
    return error_at(path, "has no row with a column {}; {}", quote(header_column), why_empty(path, bad));
  return out;
}

}  // namespace

Result<std::vector<TableRow>> read_table(const std::string& path, const std::string& target,
                                         BadRecords& bad) {
  return read_rows(path, target, target, true, bad);
}

Result<std::vector<TableRow>> read_table_to_predict(const std::string& path, const std::string& target,
                                                    const std::vector<std::string>& columns,
                                                    BadRecords& bad) {
  auto rows = read_rows(path, target, target, false, bad);
  for (size_t i = 0; !rows.ok() && i < columns.size(); ++i) {
    BadRecords other;
    auto again = read_rows(path, columns[i], target, false, other);
    if (again.ok()) rows = std::move(again), bad = std::move(other);
  }
  return rows;
}

Result<TableEncoder> TableEncoder::fit(const std::vector<TableRow>& rows, bool classes) {
  TableEncoder out;
  std::set<std::string> names;
  for (const TableRow& row : rows)
    for (const auto& field : row.fields) names.insert(field.first);
  for (const std::string& name : names) {
    Column column{name, 0, 1, {}};
    std::vector<double> numbers;
    std::set<std::string> values;
    bool numeric = true;
    for (const TableRow& row : rows) {
      const auto it = row.fields.find(name);
      if (it == row.fields.end() || is_missing(it->second)) continue;
      const auto number = number_in(it->second);
      numeric = numeric && number;
      if (number) numbers.push_back(*number);
      if (values.size() <= kMaxOneHotValues) values.insert(it->second);
    }
    if (numeric && !numbers.empty())
      std::tie(column.mean, column.deviation) = moments(numbers);
    else if (values.size() > kMaxOneHotValues)
      return error_at(name, "the column has more than {} values that are not all numbers; remove it",
                      kMaxOneHotValues);
    else
      column.values.assign(values.begin(), values.end());
    if (numeric || !values.empty()) out.columns_.push_back(std::move(column));
  }
  if (out.width() == 0) return error_at("table", "has no column besides the target");
  std::set<std::string> labels;
  std::vector<double> numbers;
  for (const TableRow& row : rows) {
    if (const auto number = number_in(row.target)) numbers.push_back(*number);
    if (labels.size() <= kMaxClasses) labels.insert(row.target);
  }
  if (classes || numbers.size() < rows.size()) {
    if (labels.size() > kMaxClasses || labels.size() < 2)
      return error_at("target", "expected 2 to {} classes, found {}", kMaxClasses,
                      labels.size() > kMaxClasses ? "more" : std::to_string(labels.size()));
    out.classes_.assign(labels.begin(), labels.end());
  } else {
    std::tie(out.mean_, out.deviation_) = moments(numbers);
  }
  return out;
}

size_t TableEncoder::width() const {
  size_t width = 0;
  for (const Column& c : columns_) width += std::max<size_t>(1, c.values.size());
  return width;
}

std::vector<std::string> TableEncoder::column_names() const {
  std::vector<std::string> out;
  for (const Column& c : columns_) out.push_back(c.name);
  return out;
}

std::vector<std::string> TableEncoder::numeric_columns() const {
  std::vector<std::string> out;
  for (const Column& c : columns_) {
    if (!c.values.empty()) return {};
    out.push_back(c.name);
  }
  return out;
}

Result<std::vector<float>> TableEncoder::encode(const TableRow& row, const std::string& place) const {
  std::vector<float> out;
  for (const Column& c : columns_) {
    const auto it = row.fields.find(c.name);
    const bool missing = it == row.fields.end() || is_missing(it->second);
    if (!c.values.empty()) {
      for (const std::string& value : c.values) out.push_back(!missing && it->second == value ? 1.0f : 0.0f);
      continue;
    }
    if (missing) {
      out.push_back(0.0f);
      continue;
    }
    const auto number = number_in(it->second);
    if (!number)
      return error_at(place, "column {} must be a number, got {}", quote(c.name), quote(it->second));
    out.push_back(static_cast<float>((*number - c.mean) / c.deviation));
  }
  return out;
}

Status TableEncoder::use_counts(const std::vector<TableRow>& rows) {
  double sum = 0;
  for (const TableRow& row : rows) {
    const double value = number_in(row.target).value_or(0);
    if (value < 0)
      return error_at("the target", "`loss` poisson is for counts, which are not negative, but a value is {}",
                      value);
    sum += value;
  }
  counts_ = true, mean_ = 0, deviation_ = sum > 0 ? sum / static_cast<double>(rows.size()) : 1;
  return Done{};
}

Result<float> TableEncoder::target(const TableRow& row, const std::string& place) const {
  if (is_classes()) {
    const auto it = std::lower_bound(classes_.begin(), classes_.end(), row.target);
    if (it == classes_.end() || *it != row.target)
      return error_at(place, "the class {} does not occur in the training data", quote(row.target));
    return static_cast<float>(it - classes_.begin());
  }
  const auto number = number_in(row.target);
  if (!number) return error_at(place, "the target must be a number, got {}", quote(row.target));
  return static_cast<float>((*number - mean_) / deviation_);
}

Json TableEncoder::json() const {
  Json columns = Json::array();
  for (const Column& c : columns_)
    columns.push_back(c.values.empty() ? Json{{"name", c.name}, {"mean", c.mean}, {"deviation", c.deviation}}
                                       : Json{{"name", c.name}, {"values", c.values}});
  return {{"columns", columns},
          {"classes", classes_},
          {"mean", mean_},
          {"deviation", deviation_},
          {"counts", counts_}};
}

Result<TableEncoder> TableEncoder::from_json(const Json& json, const std::string& place) {
  const auto invalid = [&](const std::string& what) {
    return error_at(place, "the table's {} is not valid; train the network again", what);
  };
  const auto number = [](const Json& j, const char* key, double& out) {
    if (!j.contains(key) || !j[key].is_number()) return false;
    out = j[key].get<double>();
    return std::isfinite(out);
  };
  const auto strings = [](const Json& j, std::vector<std::string>& out) {
    if (!j.is_array() || j.size() > kMaxClasses) return false;
    for (const Json& t : j) {
      if (!t.is_string()) return false;
      out.push_back(t.get<std::string>());
    }
    return true;
  };
  TableEncoder out;
  if (!json.is_object() || !json.contains("columns") || !json["columns"].is_array() ||
      json["columns"].size() > kMaxColumns)
    return invalid("columns");
  for (const Json& c : json["columns"]) {
    Column column;
    if (!c.is_object() || !c.contains("name") || !c["name"].is_string()) return invalid("column");
    column.name = c["name"].get<std::string>();
    const bool one_hot = c.contains("values");
    if (one_hot ? !strings(c["values"], column.values) || column.values.empty()
                : !number(c, "mean", column.mean) || !number(c, "deviation", column.deviation) ||
                      column.deviation <= 0)
      return invalid("column " + quote(column.name));
    out.columns_.push_back(std::move(column));
  }
  if (out.columns_.empty()) return invalid("columns");
  if (!json.contains("classes") || !strings(json["classes"], out.classes_) ||
      !std::is_sorted(out.classes_.begin(), out.classes_.end()) || out.classes_.size() == 1)
    return invalid("classes");
  if (!number(json, "mean", out.mean_) || !number(json, "deviation", out.deviation_) || out.deviation_ <= 0)
    return invalid("target");
  if (const auto counts = json.find("counts"); counts != json.end()) {
    if (!counts->is_boolean()) return invalid("counts");
    out.counts_ = counts->get<bool>();
  }
  return out;
}

}  // namespace makar
