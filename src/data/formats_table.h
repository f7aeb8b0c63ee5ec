// CSV and TSV tables (RFC 4180 quoting) and CoNLL columns as records.
#pragma once
#include "data/line_reader.h"
#include "data/record_reader.h"

namespace makar {

// The first row is a header if one of its fields is a known name or in `selected`. Without a header, two
// columns are text and label, and one column is text; numbers in `selected` select columns by position.
class TableReader : public FileReader {
 public:
  static constexpr size_t kMaxColumns = 4096;
  TableReader(std::unique_ptr<ByteStream> stream, char separator, Columns selected)
      : lines_(std::move(stream)), separator_(separator), selected_(std::move(selected)) {}
  Result<bool> next(DataRecord& record, BadRecords& bad) override;

 private:
  Result<bool> row(std::vector<std::string>& fields, uint64_t& line, BadRecords& bad);
  bool is_header(const std::vector<std::string>& fields) const;
  bool selects_by_number() const;
  LineReader lines_;
  char separator_;
  Columns selected_;
  std::vector<std::string> columns_;
};

// A sentence is the lines up to an empty one: {"tokens", "tags"}. For CoNLL-U the tag is the universal part
// of speech; otherwise the first column is the token and the last one the tag.
class ConllReader : public FileReader {
 public:
  static constexpr size_t kMaxTokens = 65536;
  ConllReader(std::unique_ptr<ByteStream> stream, bool universal)
      : lines_(std::move(stream)), universal_(universal) {}
  Result<bool> next(DataRecord& record, BadRecords& bad) override;

 private:
  LineReader lines_;
  bool universal_;
};

}  // namespace makar
