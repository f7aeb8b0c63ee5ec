// N-grams as a trie of hash tables: an n-gram is stored as the number of its prefix, which is the n-gram of
// its first n-1 words, and its last word.
#pragma once
#include <cstdint>
#include <vector>

#include "text/hash.h"

namespace makar {

// The n-grams of one length, numbered from 0 in the order in which they were added.
class NgramTable {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // `prefix`: the number of the first n-1 words in the table of length n-1; 0 for single words.
  uint32_t add(uint32_t prefix, uint32_t word);
  uint32_t find(uint32_t prefix, uint32_t word) const;
  uint32_t prefix(uint32_t at) const { return static_cast<uint32_t>(keys_[at] >> 32); }
  uint32_t word(uint32_t at) const { return static_cast<uint32_t>(keys_[at]); }
  size_t size() const { return keys_.size(); }
  size_t bytes() const { return keys_.capacity() * 8 + slots_.capacity() * 4; }

 private:
  void grow();
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> slots_;  // a power of two, linear probing
};

}  // namespace makar
