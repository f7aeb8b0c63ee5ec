// Counts words within a memory limit. A table that exceeds its share is written to disk as a sorted run; the
// runs are merged at the end, so the counts are exact at any limit. Only when the distinct words themselves
// do not fit, the rarest are dropped and their number is reported.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/train/word_table.h"

namespace makar {

struct WordCounts {
  std::vector<WordCount> words;  // in byte order
  uint64_t total = 0;            // occurrences of all words, kept or dropped
  uint64_t dropped_words = 0, dropped_total = 0;
  size_t runs = 0;  // runs written to disk
};

// One sorted run of words in an unnamed temporary file, deleted with the object.
class SpilledWords {
 public:
  static Result<std::unique_ptr<SpilledWords>> write(const WordTable& table, const std::string& folder);
  ~SpilledWords();
  SpilledWords(const SpilledWords&) = delete;
  SpilledWords& operator=(const SpilledWords&) = delete;
  void rewind();
  // Reads the next word; false at the end.
  Result<bool> next(std::string& word, uint64_t& count);

 private:
  explicit SpilledWords(std::FILE* file) : file_(file) {}
  std::FILE* file_;
};

// The counter of one thread. The result does not depend on which thread counts a word.
class WordCounter {
 public:
  WordCounter(size_t table_bytes, std::string folder)
      : max_table_bytes_(table_bytes), folder_(std::move(folder)) {}
  Status add(std::string_view word, uint64_t count = 1);
  // Merges all counters: the most frequent words that can be trained on within about `max_bytes` bytes, where
  // a word takes `bytes_per_byte` for each of its bytes.
  static Result<WordCounts> finish(std::vector<WordCounter>& counters, size_t max_bytes,
                                   size_t bytes_per_byte = 9);

 private:
  size_t max_table_bytes_;
  std::string folder_;
  WordTable table_;
  std::vector<std::unique_ptr<SpilledWords>> runs_;
};

}  // namespace makar
