// JSONL and JSON files as records. A JSON file may be a list of records, one record, SQuAD's nested form, or
// concatenated records; lists are read one element at a time.
#pragma once
#include <deque>

#include "data/line_reader.h"
#include "data/record_reader.h"

namespace makar {

class JsonlReader : public FileReader {
 public:
  explicit JsonlReader(std::unique_ptr<ByteStream> stream) : lines_(std::move(stream)) {}
  Result<bool> next(DataRecord& record, BadRecords& bad) override;

 private:
  LineReader lines_;
};

class JsonReader : public FileReader {
 public:
  static constexpr size_t kMaxRecordBytes = size_t{64} << 20;  // or the bytes of a SQuAD file
  explicit JsonReader(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}
  Result<bool> next(DataRecord& record, BadRecords& bad) override;

 private:
  Result<int> read_byte();  // -1 at the end
  // The text of the next value, with balanced brackets; false at the end of the list or file.
  Result<bool> read_value(std::string& text, uint64_t& line);

  std::unique_ptr<ByteStream> stream_;
  std::string block_;
  size_t at_ = 0;
  uint64_t line_ = 1;
  int unread_ = -2;  // a byte that was read ahead; -2: none
  bool started_ = false, list_ = false, ended_ = false;
  std::deque<DataRecord> squad_records_;  // questions of a SQuAD file
};

}  // namespace makar
