#include "cli/metrics_input.h"

#include <charconv>
#include <cmath>

#include "base/file.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "data/line_reader.h"
#include "data/record_reader.h"
#include "metrics/classification.h"

namespace makar {
namespace {

Result<std::vector<Cell>> read_value_lines(const std::string& path) {
  MAKAR_TRY(auto stream, ByteStream::open(path));
  LineReader reader(std::move(stream));
  std::vector<Cell> out;
  for (Line line;;) {
    MAKAR_TRY(const bool found, reader.next(line));
    if (!found) return out;
    const std::string place = fmt::format("{}:{}", path, line.number);
    if (line.too_long)
      return error_of(Error::Kind::kLimit, place, "the line is longer than {} bytes", reader.limit());
    if (!is_valid_utf8(line.text)) return error_at(place, "not UTF-8; convert the file with iconv");
    out.push_back({line.text});
  }
}

Result<std::string> cell_text(const Json& value, const std::string& place) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (value.is_null()) return std::string();
  return error_at(place, "expected a text, a number or a list of these, found {}", quote(value.dump()));
}

// "answers.text": a nested field, unless a field has that whole name.
const Json* field_at(const Json& record, const std::string& path) {
  if (!record.is_object()) return nullptr;
  if (const auto found = record.find(path); found != record.end()) return &*found;
  const size_t dot = path.find('.');
  if (dot == std::string::npos) return nullptr;
  const auto outer = record.find(path.substr(0, dot));
  return outer == record.end() ? nullptr : field_at(*outer, path.substr(dot + 1));
}

Result<std::vector<Cell>> read_column(const std::string& path, RecordFormat format,
                                      const std::string& column) {
  MAKAR_TRY(auto stream, ByteStream::open(path));
  const auto reader = FileReader::make(std::move(stream), format, {{"text", column}});
  std::vector<Cell> out;
  BadRecords bad;
  for (DataRecord record;;) {
    const auto found = reader->next(record, bad);
    if (!found.ok() && out.empty()) return error_at(path, "the first line has no column '{}'", column);
    if (!found.ok()) return found.error();
    if (bad.count > 0) return error_at(bad.reported[0], "every record must be readable");
    if (!*found) return out;
    const Json* value = field_at(record.value, column);
    if (!value) return error_at(record.place(), "has no field '{}'", column);
    Cell cell;
    for (const Json& one : value->is_array() ? *value : Json::array({*value})) {
      MAKAR_TRY(std::string text, cell_text(one, record.place()));
      cell.push_back(std::move(text));
    }
    out.push_back(std::move(cell));
  }
}

}  // namespace

Result<std::vector<Cell>> read_cells(const std::string& source) {
  const size_t colon = source.rfind(':');
  if (colon == std::string::npos || path_exists(source)) return read_value_lines(source);
  const std::string path = source.substr(0, colon), column = source.substr(colon + 1);
  const auto format = format_of(path);
  if (!format || *format == RecordFormat::kText || *format == RecordFormat::kConllu)
    return error_at(source, "FILE:COLUMN needs a .jsonl, .json, .csv, .tsv or .conll file");
  return read_column(path, *format, column);
}

Result<std::vector<std::string>> read_values(const std::string& source) {
  MAKAR_TRY(std::vector<Cell> cells, read_cells(source));
  std::vector<std::string> out;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].size() != 1)
      return error_at(source, "item {} is a list of {}; expected one value", i + 1, cells[i].size());
    out.push_back(std::move(cells[i][0]));
  }
  return out;
}

Result<std::vector<double>> read_numbers(const std::string& source) {
  MAKAR_TRY(const auto values, read_values(source));
  std::vector<double> out;
  for (size_t i = 0; i < values.size(); ++i) {
    double number = 0;
    const auto [end, status] = std::from_chars(values[i].data(), values[i].data() + values[i].size(), number);
    if (status != std::errc() || end != values[i].data() + values[i].size() || !std::isfinite(number))
      return error_at(source, "item {}: expected a number, found {}", i + 1, quote(values[i]));
    out.push_back(number);
  }
  return out;
}

Status same_count(size_t a, const std::string& source_a, size_t b, const std::string& source_b) {
  if (a != b) return error_at(source_b, "has {} values, {} has {}", b, source_a, a);
  if (a == 0) return error_at(source_a, "has no values");
  return Done{};
}

Result<std::vector<double>> numbers_of(const Cell& cell, const std::string& place) {
  std::vector<double> out;
  for (const std::string& text : cell)
    for (size_t at = 0; at < text.size();) {
      const size_t begin = std::min(text.find_first_not_of(" ,\t", at), text.size());
      if (begin == text.size()) break;
      at = std::min(text.find_first_of(" ,\t", begin), text.size());
      double number = 0;
      const auto [end, status] = std::from_chars(text.data() + begin, text.data() + at, number);
      if (status != std::errc() || end != text.data() + at || !std::isfinite(number))
        return error_at(place, "expected a number, found {}", quote(text.substr(begin, at - begin)));
      out.push_back(number);
    }
  if (out.empty()) return error_at(place, "expected a number, found nothing");
  return out;
}

std::vector<std::string> comma_list(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Result<std::string> positive_label(const std::vector<std::string>& labels, const std::string& name) {
  if (!name.empty()) return name;
  const auto known = sorted_labels(labels);
  if (known.size() > 2)
    return error_at("--positive", "there are {} labels; name the positive one", known.size());
  return known.back();
}

}  // namespace makar
