#include "data/record_reader.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/sha256.h"
#include "data/formats_json.h"
#include "data/formats_table.h"
#include "data/schema.h"
#include "text/unicode.h"

namespace makar {
namespace {

// Plain text: one document per file, in pieces.
class TextReader : public FileReader {
 public:
  explicit TextReader(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}
  Result<bool> next(DataRecord& record, BadRecords&) override {
    while (!ended_ && rest_.size() < kPieceBytes) {
      const size_t old_size = rest_.size();
      rest_.resize(kPieceBytes);
      MAKAR_TRY(const size_t n, stream_->read({rest_.data() + old_size, kPieceBytes - old_size}));
      rest_.resize(old_size + n);
      ended_ = n == 0;
    }
    if (rest_.empty()) return false;
    size_t piece_end = rest_.size();
    if (!ended_) {
      const size_t line = rest_.rfind('\n');
      if (line != std::string::npos) {
        piece_end = line + 1;
      } else {  // a very long line: split between characters
        for (int i = 0; i < 3 && piece_end > 1 && is_utf8_continuation(rest_[piece_end - 1]); ++i)
          --piece_end;
        if (piece_end > 1 && static_cast<unsigned char>(rest_[piece_end - 1]) >= 0xC0) --piece_end;
      }
    }
    const std::string piece = rest_.substr(0, piece_end);
    rest_.erase(0, piece_end);
    record.value = {{"text", is_valid_utf8(piece) ? piece : to_valid_utf8(piece)}};
    record.file = stream_->place(), record.line = line_, record.continues = line_ > 1 || started_;
    started_ = true;
    line_ += static_cast<uint64_t>(std::count(piece.begin(), piece.end(), '\n'));
    return true;
  }

 private:
  std::unique_ptr<ByteStream> stream_;
  std::string rest_;
  uint64_t line_ = 1;
  bool ended_ = false, started_ = false;
};

std::string uncompressed_name(const std::string& path) {
  for (const char* end : {".gz", ".zst"})
    if (path.ends_with(end)) return path.substr(0, path.size() - std::string(end).size());
  return path;
}

}  // namespace

std::optional<RecordFormat> format_of(const std::string& path) {
  const std::string name = uncompressed_name(path);
  const std::pair<const char*, RecordFormat> table[] = {
      {".txt", RecordFormat::kText},    {".md", RecordFormat::kText},      {".text", RecordFormat::kText},
      {".raw", RecordFormat::kText},    {".en", RecordFormat::kText},      {".de", RecordFormat::kText},
      {".jsonl", RecordFormat::kJsonl}, {".ndjson", RecordFormat::kJsonl}, {".json", RecordFormat::kJson},
      {".csv", RecordFormat::kCsv},     {".tsv", RecordFormat::kTsv},      {".conllu", RecordFormat::kConllu},
      {".conll", RecordFormat::kConll}, {".bio", RecordFormat::kConll},    {".iob", RecordFormat::kConll}};
  for (const auto& [end, format] : table)
    if (name.ends_with(end)) return format;
  return std::nullopt;
}

std::unique_ptr<FileReader> FileReader::make(std::unique_ptr<ByteStream> stream, RecordFormat format,
                                             const Columns& columns) {
  switch (format) {
    case RecordFormat::kText:
      return std::make_unique<TextReader>(std::move(stream));
    case RecordFormat::kJsonl:
      return std::make_unique<JsonlReader>(std::move(stream));
    case RecordFormat::kJson:
      return std::make_unique<JsonReader>(std::move(stream));
    case RecordFormat::kCsv:
      return std::make_unique<TableReader>(std::move(stream), ',', columns);
    case RecordFormat::kTsv:
      return std::make_unique<TableReader>(std::move(stream), '\t', columns);
    case RecordFormat::kConll:
    case RecordFormat::kConllu:
      break;
  }
  return std::make_unique<ConllReader>(std::move(stream), format == RecordFormat::kConllu);
}

Result<RecordReader> RecordReader::open(const std::vector<DataPath>& paths) {
  namespace fs = std::filesystem;
  RecordReader reader;
  for (const auto& [path, columns] : paths) {
    if (!path_exists(path)) return error_of(Error::Kind::kNotFound, path, "no such file or folder");
    if (!is_folder(path)) {
      reader.files_.push_back(path);
      reader.columns_.push_back(columns);
      continue;
    }
    std::vector<std::string> files;
    std::error_code code;
    for (fs::recursive_directory_iterator it(path, code), end; !code && it != end; it.increment(code)) {
      if (it->path().filename().string().starts_with(".")) {
        if (it->is_directory(code)) it.disable_recursion_pending();
        continue;
      }
      if (it->is_regular_file(code) && format_of(it->path().string())) files.push_back(it->path().string());
    }
    if (code) return error_of(Error::Kind::kIo, path, "cannot list the folder: {}", code.message());
    if (files.empty())
      return error_of(
          Error::Kind::kNotFound, path,
          "the folder holds no dataset (.txt, .md, .jsonl, .json, .csv, .tsv, .conll, .conllu, each also "
          "as .gz or .zst)");
    std::sort(files.begin(), files.end());
    reader.files_.insert(reader.files_.end(), files.begin(), files.end());
    reader.columns_.resize(reader.files_.size(), columns);
  }
  return reader;
}

Result<std::string> fingerprint(const std::vector<DataPath>& paths) {
  MAKAR_TRY(const auto reader, RecordReader::open(paths));
  Sha256 sum;
  for (const std::string& file : reader.files()) {
    std::error_code code;
    const auto size = std::filesystem::file_size(file, code);
    const auto time = std::filesystem::last_write_time(file, code).time_since_epoch().count();
    if (code) return error_of(Error::Kind::kIo, file, "cannot read its size and time: {}", code.message());
    sum.add(fmt::format("{} {} {}\n", file, size, time));
  }
  for (const DataPath& path : paths)
    for (const auto& [field_name, column] : path.columns) sum.add(fmt::format("{}={}\n", field_name, column));
  return sum.hex();
}

// Renames fields to their standard names; false if one is missing.
bool RecordReader::rename(DataRecord& record) {
  const Columns& columns = columns_[next_file_ - 1];
  if (columns.empty()) return true;
  Json out = record.value.is_object() ? record.value : Json::object();
  for (const auto& [field_name, column] : columns) {
    if (!record.value.is_object() || !record.value.contains(column)) {
      bad_.add_once(record.place(),
                    fmt::format("has no field '{}'; its fields are: {}", column, field_names(record.value)));
      return false;
    }
    out.erase(column);
  }
  for (const auto& [field_name, column] : columns) out[field_name] = record.value[column];
  record.value = std::move(out);
  return true;
}

Result<bool> RecordReader::next(DataRecord& record) {
  for (;;) {
    if (!file_) {
      if (next_file_ == files_.size()) return false;
      const std::string& path = files_[next_file_++];
      MAKAR_TRY(auto stream, ByteStream::open(path));
      file_ = FileReader::make(std::move(stream), format_of(path).value_or(RecordFormat::kText),
                               columns_[next_file_ - 1]);
    }
    record.continues = false;
    MAKAR_TRY(const bool found, file_->next(record, bad_));
    if (found && rename(record)) return true;
    if (!found) file_.reset();
  }
}

}  // namespace makar
