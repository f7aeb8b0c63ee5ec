// Records of datasets, streamed: JSONL, JSON, CSV, TSV, CoNLL and plain text, files or folders of them, plain
// or compressed. Records that cannot be read are counted and reported with file and line; reading continues.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/byte_stream.h"

namespace makar {

struct DataRecord {
  Json value;
  std::string file;
  uint64_t line = 0;       // line where the record begins
  bool continues = false;  // plain text: continues the document of the previous record

  std::string place() const { return fmt::format("{}:{}", file, line); }
};

// Pairs of a standard field name and the dataset's own ("text", "review").
using Columns = std::vector<std::pair<std::string, std::string>>;

// A file or folder of records, with its column names if they are not the standard ones.
struct DataPath {
  DataPath(std::string p, Columns c = {}) : path(std::move(p)), columns(std::move(c)) {}  // NOLINT: converts
  DataPath(const char* p) : path(p) {}                                                    // NOLINT: converts
  std::string path;
  Columns columns;
};

// Skipped records: how many, and the first reasons.
struct BadRecords {
  static constexpr size_t kMaxReported = 10;
  uint64_t count = 0;
  std::vector<std::string> reported;
  void add(const std::string& place, const std::string& reason) {
    ++count;
    if (reported.size() < kMaxReported) reported.push_back(place + ": " + reason);
  }
  // For a reason that may apply to every record of a file: reported only once.
  void add_once(const std::string& place, const std::string& reason) {
    for (const std::string& line : reported)
      if (line.ends_with(reason)) {
        ++count;
        return;
      }
    add(place, reason);
  }
};

enum class RecordFormat { kText, kJsonl, kJson, kCsv, kTsv, kConll, kConllu };
// The format by file name, ignoring .gz and .zst; nullopt if the name does not determine it.
std::optional<RecordFormat> format_of(const std::string& path);

// Reads one file. A piece of plain text has at most kPieceBytes bytes and ends at a line break if possible.
class FileReader {
 public:
  static constexpr size_t kPieceBytes = size_t{1} << 20;
  virtual ~FileReader() = default;
  virtual Result<bool> next(DataRecord& record, BadRecords& bad) = 0;
  static std::unique_ptr<FileReader> make(std::unique_ptr<ByteStream> stream, RecordFormat format,
                                          const Columns& columns = {});
};

// A hash of file names, column names, sizes and modification times; file contents are not read.
Result<std::string> fingerprint(const std::vector<DataPath>& paths);

class RecordReader {
 public:
  // Reads folders in order of file name; skips files of unknown formats in them.
  static Result<RecordReader> open(const std::vector<DataPath>& paths);
  Result<bool> next(DataRecord& record);  // false at the end
  const BadRecords& bad() const { return bad_; }
  BadRecords& bad() { return bad_; }
  const std::vector<std::string>& files() const { return files_; }

 private:
  bool rename(DataRecord& record);
  std::vector<std::string> files_;
  std::vector<Columns> columns_;  // one per file
  size_t next_file_ = 0;
  std::unique_ptr<FileReader> file_;
  BadRecords bad_;
};

}  // namespace makar
