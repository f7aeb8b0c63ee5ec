#include "data/formats_json.h"

#include "base/quote.h"

namespace makar {
namespace {

constexpr JsonLimits kRecordLimits{JsonReader::kMaxRecordBytes, 64};

bool is_space(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string short_reason(const Error& error) {
  return error.message.size() > 300 ? error.message.substr(0, 300) + "..." : error.message;
}

// Parses a record; adds it to `bad` and returns false if it is not a JSON object.
bool parse_record(const std::string& text, const std::string& place, BadRecords& bad, Json& out) {
  auto parsed = parse_json(text, "", kRecordLimits);
  if (!parsed.ok()) {
    bad.add(place, short_reason(parsed.error()));
    return false;
  }
  if (!parsed->is_object()) {
    bad.add(place, "a record must be an object");
    return false;
  }
  out = std::move(*parsed);
  return true;
}

// {"data": [{"paragraphs": [{"context", "qas": [{"question", "answers", "id"}]}]}]} as one record per
// question.
void flatten_squad(const Json& file, const std::string& place, uint64_t line, std::deque<DataRecord>& out,
                   BadRecords& bad) {
  for (const Json& article : file["data"]) {
    if (!article.is_object() || !article.contains("paragraphs") || !article["paragraphs"].is_array()) {
      bad.add(place, "an article without 'paragraphs'");
      continue;
    }
    for (const Json& p : article["paragraphs"]) {
      if (!p.is_object() || !p.contains("context") || !p["context"].is_string() || !p.contains("qas") ||
          !p["qas"].is_array()) {
        bad.add(place, "a paragraph without 'context' and 'qas'");
        continue;
      }
      for (const Json& q : p["qas"]) {
        if (!q.is_object() || !q.contains("question") || !q["question"].is_string()) {
          bad.add(place, "an entry of 'qas' without 'question'");
          continue;
        }
        DataRecord r;
        r.value = {{"context", p["context"]},
                   {"question", q["question"]},
                   {"answers", q.contains("answers") ? q["answers"] : Json::array()}};
        if (q.contains("id")) r.value["id"] = q["id"];
        r.file = place, r.line = line;
        out.push_back(std::move(r));
      }
    }
  }
}

}  // namespace

Result<bool> JsonlReader::next(DataRecord& record, BadRecords& bad) {
  for (Line line;;) {
    MAKAR_TRY(const bool found, lines_.next(line));
    if (!found) return false;
    const std::string place = fmt::format("{}:{}", lines_.place(), line.number);
    if (line.too_long) {
      bad.add(place, fmt::format("the line is longer than {} bytes", lines_.limit()));
      continue;
    }
    if (line.text.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!parse_record(line.text, place, bad, record.value)) continue;
    record.file = lines_.place(), record.line = line.number;
    return true;
  }
}

Result<int> JsonReader::read_byte() {
  if (unread_ != -2) return std::exchange(unread_, -2);
  if (at_ == block_.size()) {
    block_.resize(size_t{64} << 10);
    MAKAR_TRY(const size_t n, stream_->read({block_.data(), block_.size()}));
    block_.resize(n);
    at_ = 0;
    if (n == 0) return -1;
  }
  const int c = static_cast<unsigned char>(block_[at_++]);
  if (c == '\n') ++line_;
  return c;
}

Result<bool> JsonReader::read_value(std::string& text, uint64_t& line) {
  text.clear();
  int c = 0;
  do {
    MAKAR_TRY(c, read_byte());
  } while (is_space(c) || (list_ && c == ','));
  if (c == -1) {
    if (list_)
      return error_at(fmt::format("{}:{}", stream_->place(), line_),
                      "the list does not end with ']'; the file is incomplete");
    return false;
  }
  if (list_ && c == ']') return false;
  line = line_;
  int depth = 0;
  bool in_quotes = false, escaped = false;
  for (;;) {
    text.push_back(static_cast<char>(c));
    if (text.size() > kMaxRecordBytes)
      return error_of(Error::Kind::kLimit, fmt::format("{}:{}", stream_->place(), line),
                      "a record is larger than {} bytes", kMaxRecordBytes);
    if (in_quotes) {
      if (escaped)
        escaped = false;
      else if (c == '\\')
        escaped = true;
      else if (c == '"')
        in_quotes = false;
    } else if (c == '"') {
      in_quotes = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
    if (depth <= 0 && !in_quotes && (c == '}' || c == ']' || c == '"')) return true;
    MAKAR_TRY(c, read_byte());
    if (c == -1) return true;  // the parser reports what is missing
    if (depth == 0 && !in_quotes && (c == ',' || c == ']' || is_space(c))) {  // end of a number or literal
      unread_ = c;
      return true;
    }
  }
}

Result<bool> JsonReader::next(DataRecord& record, BadRecords& bad) {
  if (!started_) {
    started_ = true;
    int c = 0;
    do {
      MAKAR_TRY(c, read_byte());
    } while (is_space(c) || c == 0xEF || c == 0xBB || c == 0xBF);  // skip whitespace and a byte order mark
    list_ = c == '[';
    if (!list_) unread_ = c;
  }
  for (;;) {
    if (!squad_records_.empty()) {
      record = std::move(squad_records_.front());
      squad_records_.pop_front();
      return true;
    }
    if (ended_) return false;
    std::string text;
    uint64_t line = 0;
    MAKAR_TRY(const bool found, read_value(text, line));
    if (!found) {
      ended_ = true;
      continue;
    }
    const std::string place = fmt::format("{}:{}", stream_->place(), line);
    Json parsed;
    if (!parse_record(text, place, bad, parsed)) continue;
    if (parsed.contains("data") && parsed["data"].is_array()) {
      flatten_squad(parsed, stream_->place(), line, squad_records_, bad);
      continue;
    }
    record.value = std::move(parsed);
    record.file = stream_->place(), record.line = line;
    return true;
  }
}

}  // namespace makar
