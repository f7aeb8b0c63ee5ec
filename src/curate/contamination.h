// N-grams of evaluation data, to find documents that contain parts of it.
#pragma once
#include <string_view>
#include <unordered_set>
#include <vector>

#include "data/record_reader.h"

namespace makar {

class Contamination {
 public:
  // Every n-gram of `words` words (lower case, without punctuation) of all strings of the records. A
  // shorter text of at least 5 words is one n-gram.
  static Result<Contamination> read(const std::vector<DataPath>& paths, int64_t words);
  // The first shared n-gram, or "".
  std::string shared(std::string_view text) const;
  size_t size() const { return hashes_.size(); }

 private:
  explicit Contamination(size_t words) : words_(words) {}
  size_t words_;
  std::unordered_set<uint64_t> hashes_;
  std::vector<size_t> shorter_lengths_;  // lengths of the n-grams that are shorter, in words
};

}  // namespace makar
