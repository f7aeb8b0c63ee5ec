// CSV and TSV tables (RFC 4180 quoting) and CoNLL columns as records.
#pragma once
#include "data/line_reader.h"
#include "data/record_reader.h"

namespace makar {

// The first row names the columns when one of its fields is a name that datasets use; without such a row, two
// columns are text and label, and one is text.
class TableReader : public FileReader {
 public:
  static constexpr size_t kColumns = 4096;
  TableReader(std::unique_ptr<ByteStream> stream, char separator)
      : lines_(std::move(stream)), separator_(separator) {}
  Result<bool> next(DataRecord& record, BadRecords& bad) override;

 private:
  Result<bool> row(std::vector<std::string>& fields, uint64_t& line, BadRecords& bad);
  LineReader lines_;
  char separator_;
  std::vector<std::string> columns_;
};

// A sentence is lines up to an empty one: {"tokens", "tags"}. CoNLL-U gives the word and its universal part
// of speech; other files the first and the last column.
class ConllReader : public FileReader {
 public:
  static constexpr size_t kTokens = 65536;
  ConllReader(std::unique_ptr<ByteStream> stream, bool universal)
      : lines_(std::move(stream)), universal_(universal) {}
  Result<bool> next(DataRecord& record, BadRecords& bad) override;

 private:
  LineReader lines_;
  bool universal_;
};

}  // namespace makar
