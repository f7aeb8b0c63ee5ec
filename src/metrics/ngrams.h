// Counts of n-grams.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace makar {

using NgramCounts = std::unordered_map<std::string, int64_t>;

inline NgramCounts count_ngrams(const std::vector<std::string>& units, size_t n) {
  NgramCounts counts;
  std::string gram;
  for (size_t i = 0; i + n <= units.size(); ++i) {
    gram.clear();
    for (size_t j = i; j < i + n; ++j) gram.append(units[j]) += '\n';
    ++counts[gram];
  }
  return counts;
}

inline int64_t ngram_total(size_t units, size_t n) {
  return units < n ? 0 : static_cast<int64_t>(units - n + 1);
}

// The number of n-grams in common: of each, the smaller of its two counts.
inline int64_t common_ngrams(const NgramCounts& a, const NgramCounts& b) {
  int64_t sum = 0;
  for (const auto& [gram, times] : a)
    if (const auto other = b.find(gram); other != b.end()) sum += std::min(times, other->second);
  return sum;
}

}  // namespace makar
