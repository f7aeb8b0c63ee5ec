#include "data/formats_table.h"

#include <algorithm>

#include "base/quote.h"
#include "data/schema.h"
#include "text/unicode.h"

namespace makar {
namespace {

std::string valid(const std::string& text) { return is_valid_utf8(text) ? text : to_valid_utf8(text); }

std::vector<std::string> split(const std::string& line, bool tabs) {
  std::vector<std::string> out;
  const std::string_view separators = tabs ? "\t" : " \t";
  for (size_t at = 0; at <= line.size();) {
    const size_t end = std::min(line.find_first_of(separators, at), line.size());
    if (tabs || end > at) out.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

}  // namespace

// Reads one row. A quoted field may contain separators, doubled quotes and line breaks.
Result<bool> TableReader::row(std::vector<std::string>& fields, uint64_t& first_line, BadRecords& bad) {
  fields.assign(1, "");
  bool in_quotes = false, started = false;
  size_t size = 0;
  for (Line line;;) {
    MAKAR_TRY(const bool found, lines_.next(line));
    if (!found) {
      if (in_quotes) bad.add(fmt::format("{}:{}", lines_.place(), first_line), "a quoted field does not end");
      return started && !in_quotes;
    }
    if (!started) first_line = line.number;
    const std::string place = fmt::format("{}:{}", lines_.place(), line.number);
    size += line.text.size() + 1;
    if (line.too_long || size > lines_.limit() || fields.size() > kMaxColumns) {
      bad.add(place,
              fmt::format("the row is longer than {} bytes or {} columns", lines_.limit(), kMaxColumns));
      fields.assign(1, ""), in_quotes = started = false, size = 0;
      continue;
    }
    if (!started && line.text.empty()) continue;
    started = true;
    for (size_t i = 0; i < line.text.size(); ++i) {
      const char c = line.text[i];
      if (in_quotes && c == '"' && i + 1 < line.text.size() && line.text[i + 1] == '"') {
        fields.back() += '"', ++i;
      } else if (c == '"' && separator_ == ',' && (in_quotes || fields.back().empty())) {
        in_quotes = !in_quotes;
      } else if (c == separator_ && !in_quotes) {
        fields.emplace_back();
      } else {
        fields.back() += c;
      }
    }
    if (!in_quotes) return true;
    fields.back() += '\n';
  }
}

bool TableReader::is_header(const std::vector<std::string>& fields) const {
  return std::any_of(fields.begin(), fields.end(), [&](const std::string& word) {
    return is_field_name(word) || std::any_of(selected_.begin(), selected_.end(),
                                              [&](const auto& column) { return column.second == word; });
  });
}

// Whether columns are selected by number; the table then has no header.
bool TableReader::selects_by_number() const {
  return !selected_.empty() && std::all_of(selected_.begin(), selected_.end(), [](const auto& column) {
    return column.second.find_first_not_of("0123456789") == std::string::npos;
  });
}

Result<bool> TableReader::next(DataRecord& record, BadRecords& bad) {
  for (std::vector<std::string> fields;;) {
    uint64_t line = 0;
    MAKAR_TRY(const bool found, row(fields, line, bad));
    if (!found) return false;
    if (columns_.empty()) {
      if (!selects_by_number() && is_header(fields)) {
        columns_ = fields;
        continue;
      }
      if (fields.size() > 2 && !selects_by_number())
        return error_at(fmt::format("{}:{}", lines_.place(), line),
                        "the first line names no known field ({}); name the columns after the "
                        "path (PATH,text=NAME,label=NAME), or give their numbers if the file has no header "
                        "(text=1,label=2)",
                        quote(fmt::format("{}", fmt::join(fields, ", "))));
      columns_ =
          fields.size() == 2 ? std::vector<std::string>{"text", "label"} : std::vector<std::string>{"text"};
      if (selects_by_number()) columns_.clear();
      for (size_t i = 1; selects_by_number() && i <= fields.size(); ++i)
        columns_.push_back(std::to_string(i));
    }
    if (fields.size() != columns_.size()) {
      bad.add(fmt::format("{}:{}", lines_.place(), line),
              fmt::format("the row has {} fields where the table has {} columns", fields.size(),
                          columns_.size()));
      continue;
    }
    record.value = Json::object();
    for (size_t i = 0; i < fields.size(); ++i) record.value[valid(columns_[i])] = valid(fields[i]);
    record.file = lines_.place(), record.line = line;
    return true;
  }
}

Result<bool> ConllReader::next(DataRecord& record, BadRecords& bad) {
  Json tokens = Json::array(), tags = Json::array();
  bool is_bad = false;
  for (Line line;;) {
    MAKAR_TRY(const bool found, lines_.next(line));
    const bool blank = found && !line.too_long && line.text.find_first_not_of(" \t") == std::string::npos;
    if (!found || blank) {
      if (!tokens.empty() && !is_bad) {
        record.value = {{"tokens", std::move(tokens)}, {"tags", std::move(tags)}};
        record.file = lines_.place();
        return true;
      }
      tokens = Json::array(), tags = Json::array(), is_bad = false;
      if (!found) return false;
      continue;
    }
    if (line.text.starts_with("#") && (universal_ || tokens.empty())) continue;
    if (is_bad) continue;
    const auto columns = split(line.text, universal_);
    const std::string place = fmt::format("{}:{}", lines_.place(), line.number);
    if (line.too_long || columns.size() < (universal_ ? 4u : 2u) || tokens.size() >= kMaxTokens) {
      bad.add(place, line.too_long ? fmt::format("the line is longer than {} bytes", lines_.limit())
                     : tokens.size() >= kMaxTokens
                         ? fmt::format("the sentence has more than {} tokens", kMaxTokens)
                         : fmt::format("expected {} columns, got {}", universal_ ? 10 : 2, columns.size()));
      is_bad = true;
      continue;
    }
    if (universal_ && columns[0].find_first_of("-.") != std::string::npos) continue;  // ranges, empty nodes
    if (tokens.empty()) record.line = line.number;
    tokens.push_back(valid(universal_ ? columns[1] : columns.front()));
    tags.push_back(valid(universal_ ? columns[3] : columns.back()));
  }
}

}  // namespace makar
