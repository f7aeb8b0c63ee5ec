// Records of datasets, streamed: JSONL, JSON, CSV, TSV, CoNLL and plain text, one file or folders of them,
// plain or compressed. What cannot be read is counted and told with its file and line; it never stops the
// reading.
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
  uint64_t line = 0;       // where it begins
  bool continues = false;  // plain text: goes on with the document of the record before

  std::string place() const { return fmt::format("{}:{}", file, line); }
};

// Records that were passed over: how many, and the first few in words.
struct BadRecords {
  static constexpr size_t kTold = 10;
  uint64_t count = 0;
  std::vector<std::string> told;
  void add(const std::string& place, const std::string& why) {
    ++count;
    if (told.size() < kTold) told.push_back(place + ": " + why);
  }
};

enum class RecordFormat { kText, kJsonl, kJson, kCsv, kTsv, kConll, kConllu };
// By the name of a file without .gz and .zst; nullopt when it says nothing.
std::optional<RecordFormat> format_of(const std::string& path);

// One file. A piece of plain text is at most kPiece bytes, cut at a line's end where there is one.
class FileReader {
 public:
  static constexpr size_t kPiece = size_t{1} << 20;
  virtual ~FileReader() = default;
  virtual Result<bool> next(DataRecord& record, BadRecords& bad) = 0;
  static std::unique_ptr<FileReader> make(std::unique_ptr<ByteStream> stream, RecordFormat format);
};

// Changes when a file of the datasets does: a hash of names, sizes and times, not of the contents.
Result<std::string> fingerprint(const std::vector<std::string>& paths);

class RecordReader {
 public:
  // Folders are walked in the order of names; files of no known kind in them are passed over.
  static Result<RecordReader> open(const std::vector<std::string>& paths);
  Result<bool> next(DataRecord& record);  // false at the end
  const BadRecords& bad() const { return bad_; }
  BadRecords& bad() { return bad_; }
  const std::vector<std::string>& files() const { return files_; }

 private:
  std::vector<std::string> files_;
  size_t next_file_ = 0;
  std::unique_ptr<FileReader> file_;
  BadRecords bad_;
};

}  // namespace makar
