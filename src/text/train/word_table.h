// Words and their counts: an open-addressing hash table over one arena of bytes. Counts have 64 bits.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace makar {

class WordTable {
 public:
  struct Entry {
    uint64_t count;
    uint64_t offset;  // in the arena
    uint32_t length;
    uint32_t hash;
  };

  void add(std::string_view word, uint64_t count);
  size_t size() const { return entries_.size(); }
  // Memory in use, in bytes.
  size_t bytes() const {
    return arena_.capacity() + entries_.capacity() * sizeof(Entry) + slots_.capacity() * sizeof(uint32_t);
  }
  const std::vector<Entry>& entries() const { return entries_; }
  std::string_view word(const Entry& e) const { return {arena_.data() + e.offset, e.length}; }
  // The indices of the entries, in byte order of the words.
  std::vector<uint32_t> sorted_indices() const;
  void clear();

 private:
  void grow();
  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // index + 1 of an entry; 0 is free
};

// A counted word.
struct WordCount {
  std::string word;
  uint64_t count;
};

}  // namespace makar
