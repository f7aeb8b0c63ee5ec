// Counts words within a memory bound. A table that grows over its share is written to disk as a sorted run;
// the runs are merged at the end, so the counts are exact at any bound. Only when the different words
// themselves do not fit are the rarest ones left out, and the outcome says how many.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/train/word_table.h"

namespace makar {

struct WordCounts {
  std::vector<WordCount> words;  // in the order of their bytes
  uint64_t total = 0;            // occurrences of all words, kept or not
  uint64_t dropped_words = 0, dropped_total = 0;
  size_t runs = 0;  // written to disk
};

// A file without a name that goes away with the object.
class SpilledWords {
 public:
  static Result<std::unique_ptr<SpilledWords>> write(const WordTable& table, const std::string& folder);
  ~SpilledWords();
  SpilledWords(const SpilledWords&) = delete;
  SpilledWords& operator=(const SpilledWords&) = delete;
  void rewind();
  // The next word; false at the end.
  Result<bool> next(std::string& word, uint64_t& count);

 private:
  explicit SpilledWords(std::FILE* file) : file_(file) {}
  std::FILE* file_;
};

// One thread's counter. Which thread counts a word does not matter: the sums do.
class WordCounter {
 public:
  WordCounter(size_t table_bytes, std::string folder) : limit_(table_bytes), folder_(std::move(folder)) {}
  Status add(std::string_view word, uint64_t count = 1);
  // All counters' words together: the most frequent that can be trained on in about `memory` bytes, where a
  // word takes `bytes_per_byte` for each of its bytes.
  static Result<WordCounts> finish(std::vector<WordCounter>& counters, size_t memory,
                                   size_t bytes_per_byte = 9);

 private:
  size_t limit_;
  std::string folder_;
  WordTable table_;
  std::vector<std::unique_ptr<SpilledWords>> runs_;
};

}  // namespace makar
