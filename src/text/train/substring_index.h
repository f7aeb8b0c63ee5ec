// Repeated substrings of a list of words, from a suffix array: every substring that occurs at least twice and
// is not always followed by the same character (the inner nodes of the suffix tree).
#pragma once
#include <cstdint>
#include <vector>

namespace makar {

struct Substring {
  uint32_t first, last;  // the range of the suffix array whose suffixes start with it
  uint32_t length;
  uint64_t occurrences() const { return uint64_t{last} - first + 1; }
};

struct SubstringIndex {
  std::vector<uint32_t> suffixes;     // start positions, sorted by up to max_length + 1 characters
  std::vector<Substring> substrings;  // of 2 to `max_length` characters
};

// `text`: character numbers in code point order, from 1; each word ends with a 0.
SubstringIndex index_substrings(const std::vector<uint32_t>& text, uint32_t max_length);

}  // namespace makar
