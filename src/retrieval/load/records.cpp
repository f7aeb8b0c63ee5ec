#include "retrieval/load/records.h"

#include <algorithm>

#include "base/lower_ascii.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "data/formats_table.h"

namespace makar {
namespace {

constexpr size_t kMaxMetadataBytes = 4096;  // of one value
constexpr size_t kMaxNameBytes = 1024;

const std::vector<std::string> kTextNames = {"text", "content", "contents", "body", "passage", "abstract"};
const std::vector<std::string> kTitleNames = {"title", "heading"};
const std::vector<std::string> kIdNames = {"_id", "id", "docid", "doc_id"};

std::string find_field(const Json& record, const std::string& requested,
                       const std::vector<std::string>& usual) {
  if (!requested.empty()) return record.contains(requested) ? requested : "";
  for (const std::string& name : usual)
    for (const auto& [key, value] : record.items())
      if (lower_ascii(key) == name) return key;
  return "";
}

std::string scalar_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "" : value.dump();
}

// The document of an object, or why there is none.
Result<SourceDocument> record_document(const Json& record, const std::string& place,
                                       const SourceOptions& options, bool join_all) {
  SourceDocument out;
  const std::string text = find_field(record, options.text_field, kTextNames),
                    title = find_field(record, options.title_field, kTitleNames),
                    id = find_field(record, options.id_field, kIdNames);
  if (text.empty() && (!join_all || !options.text_field.empty())) {
    std::vector<std::string> known;
    for (const auto& [key, value] : record.items()) known.push_back(key);
    return error_at(place, "has no field {}{}; it has {}; name the field of the text with --text-field",
                    options.text_field.empty() ? "'text'" : quote(options.text_field),
                    did_you_mean(options.text_field, known),
                    quote(fmt::format("{}", fmt::join(known, ", "))));
  }
  out.name = id.empty() ? place : scalar_text(record[id]);
  if (out.name.empty() || out.name.size() > kMaxNameBytes)
    return error_at(place, "the id must have 1 to {} bytes, got {}", kMaxNameBytes, out.name.size());
  if (!title.empty()) out.title = scalar_text(record[title]);
  out.index_title = !out.title.empty() && !text.empty();
  for (const auto& [key, value] : record.items()) {
    if (key == text) {
      if (!value.is_string())
        return error_at(place, "field '{}' must be a string, found {}", key, value.type_name());
      out.text = value.get<std::string>();
    } else if (text.empty() && key != id) {
      const std::string line = scalar_text(value);
      if (!line.empty()) out.text += key + ": " + line + "\n";
    }
    if (key == text || key == title || key == id) continue;
    const std::string bytes = scalar_text(value);
    if (!bytes.empty() && bytes.size() <= kMaxMetadataBytes && !value.is_structured())
      out.metadata[key] = value;
  }
  if (out.text.find_first_not_of(" \t\r\n") == std::string::npos && !out.title.empty()) out.text = out.title;
  if (out.text.find_first_not_of(" \t\r\n") == std::string::npos) return error_at(place, "has no text");
  return out;
}

Result<LineReader> lines_of(std::string bytes, const std::string& place) {
  MAKAR_TRY(auto stream, ByteStream::from_memory(std::move(bytes), place));
  return LineReader(std::move(stream));
}

}  // namespace

Status load_table(std::string bytes, bool tabs, const std::string& place, const SourceOptions& options,
                  const DocumentSink& sink, BadRecords& bad) {
  MAKAR_TRY(auto stream, ByteStream::from_memory(std::move(bytes), place));
  // Columns are named by number, because the header is interpreted here.
  TableReader reader(std::move(stream), tabs ? '\t' : ',', {{"text", "1"}});
  std::vector<std::string> columns;
  for (DataRecord row;;) {
    MAKAR_TRY(const bool found, reader.next(row, bad));
    if (!found) return Done{};
    if (columns.empty()) {
      for (const auto& [number, value] : row.value.items()) {
        std::string title = options.header ? value.get<std::string>() : "";
        if (title.empty() || std::find(columns.begin(), columns.end(), title) != columns.end())
          title = "column " + number;
        columns.push_back(title);
      }
      if (options.header) continue;
    }
    Json record = Json::object();
    size_t at = 0;
    for (const auto& [number, value] : row.value.items()) record[columns[at++]] = value;
    auto document = record_document(record, fmt::format("{}#{}", place, row.line), options, true);
    if (!document.ok()) {
      bad.add(document.error().place, document.error().message);
      continue;
    }
    MAKAR_RETURN_IF_ERROR(sink(std::move(*document)));
  }
}

Status load_jsonl(std::string bytes, const std::string& place, const SourceOptions& options,
                  const DocumentSink& sink, BadRecords& bad) {
  MAKAR_TRY(LineReader lines, lines_of(std::move(bytes), place));
  for (Line line;;) {
    MAKAR_TRY(const bool found, lines.next(line));
    if (!found) return Done{};
    const std::string line_place = fmt::format("{}#{}", place, line.number);
    if (line.too_long) {
      bad.add(line_place, fmt::format("the line is longer than {} bytes", lines.limit()));
      continue;
    }
    if (line.text.find_first_not_of(" \t") == std::string::npos) continue;
    const auto record = parse_json(line.text, line_place);
    if (!record.ok() || !record->is_object()) {
      bad.add(line_place, record.ok() ? "expected an object" : record.error().message);
      continue;
    }
    auto document = record_document(*record, line_place, options, false);
    if (!document.ok()) {
      bad.add(document.error().place, document.error().message);
      continue;
    }
    MAKAR_RETURN_IF_ERROR(sink(std::move(*document)));
  }
}

Status load_cranfield(std::string bytes, const std::string& place, const DocumentSink& sink,
                      BadRecords& bad) {
  MAKAR_TRY(LineReader lines, lines_of(std::move(bytes), place));
  SourceDocument document;
  char field = 0;
  const auto finish = [&]() -> Status {
    if (document.name.empty()) return Done{};
    if (document.text.find_first_not_of(" \n") == std::string::npos) document.text = document.title;
    if (document.text.empty()) {
      bad.add(place, "document " + quote(document.name) + " has no text");
    } else {
      MAKAR_RETURN_IF_ERROR(sink(std::move(document)));
    }
    document = {};
    return Done{};
  };
  for (Line line;;) {
    MAKAR_TRY(const bool found, lines.next(line));
    if (!found) break;
    if (line.text.starts_with(".I ")) {
      MAKAR_RETURN_IF_ERROR(finish());
      document.name = line.text.substr(3, kMaxNameBytes);
      field = 0;
    } else if (line.text.size() == 2 && line.text[0] == '.' && line.text[1] >= 'A' && line.text[1] <= 'Z') {
      field = line.text[1];
    } else if (field == 'T') {
      document.title += (document.title.empty() ? "" : " ") + line.text;
    } else if (field == 'W') {
      document.text += line.text + "\n";
    } else if (field == 'A' || field == 'B') {
      const char* key = field == 'A' ? "author" : "source";
      if (line.text.size() <= kMaxMetadataBytes && !line.text.empty()) document.metadata[key] = line.text;
    }
  }
  return finish();
}

}  // namespace makar
