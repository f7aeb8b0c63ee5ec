// Files as documents: text, Markdown, HTML, PDF, CSV and TSV rows, JSON lines, Cranfield's format, folders.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "data/record_reader.h"
#include "retrieval/load/encoding.h"

namespace makar {

struct SourceDocument {
  std::string name;  // unique in a collection: the path, or the id of a record
  std::string title, text;
  bool index_title = false;  // the title is not part of the text: index it with each chunk
  Json metadata = Json::object();
};

enum class SourceFormat { kText, kMarkdown, kHtml, kPdf, kCsv, kTsv, kJsonl, kCranfield };
const char* name(SourceFormat format);

struct SourceOptions {
  TextEncoding encoding = TextEncoding::kAuto;
  std::string text_field, title_field, id_field;  // of records; empty: by their usual names
  bool header = true;                             // the first row of a table names its columns
  size_t file_bytes = size_t{1} << 30;            // of tables and JSON lines, decompressed
  size_t document_bytes = size_t{64} << 20;       // of a file that is one document
};

// Receives one document; an error ends loading.
using DocumentSink = std::function<Status(SourceDocument)>;

// PDF by the first bytes; else the format by the extension of the path; if that is unknown, by the first
// bytes. nullopt: not a text.
std::optional<SourceFormat> source_format(const std::string& path, std::string_view first_bytes);

// All files at the paths, in order; a folder recursively in order of names, without hidden files.
Result<std::vector<std::string>> source_files(const std::vector<std::string>& paths);
// The documents of a file. Records without text are counted in `bad`; a file that cannot be read is an error.
Status load_file(const std::string& path, const SourceOptions& options, const DocumentSink& sink,
                 BadRecords& bad);

// The documents of bytes in memory; `place` names them. Not for PDF.
Status load_bytes(std::string bytes, SourceFormat format, const std::string& place,
                  const SourceOptions& options, const DocumentSink& sink, BadRecords& bad);

}  // namespace makar
