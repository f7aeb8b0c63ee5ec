// Text files of any size as a stream of sequences: a sequence is a line with its line break, or the "text" of
// one JSONL record. A sequence over 1 MiB is split between characters, so memory is bounded for any file.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace makar {

// Some sequences, concatenated.
struct SequenceBlock {
  std::string bytes;
  std::vector<size_t> ends;  // of the sequences, in bytes
};

struct CorpusOptions {
  std::vector<std::string> paths;  // "-" is standard input
  bool jsonl = false;              // also for files named *.jsonl
  std::string field = "text";
  double sample = 1;  // the share of sequences to use, chosen by the seed
  uint64_t seed = 0;
};

class Corpus {
 public:
  static Result<Corpus> open(const CorpusOptions& options);
  // Reads the next block of about 1 MiB; false at the end. Bytes that are not UTF-8 are replaced by U+FFFD.
  Result<bool> next(SequenceBlock& block);
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t bytes_total() const { return total_bytes_; }  // of the regular files
  uint64_t sequences() const { return sequences_; }

 private:
  Corpus() = default;
  Status open_next();
  Status add_line(std::string_view line, SequenceBlock& block);
  void add_sequence(std::string_view text, SequenceBlock& block);

  CorpusOptions options_;
  size_t next_path_ = 0;
  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdin) std::fclose(file);
    }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::string path_, rest_;  // the current file and its incomplete line
  bool jsonl_ = false;
  uint64_t bytes_read_ = 0, total_bytes_ = 0, sequences_ = 0, line_number_ = 0;
};

}  // namespace makar
