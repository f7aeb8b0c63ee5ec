// The longest common subsequence of two sequences, and their edit distance. Both take time in proportion to
// the product of the lengths; with a budget they stop when it is spent.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "metrics/evaluation.h"

namespace makar {

// The length of the longest common subsequence, or -1 when the budget is spent.
template <class T>
int64_t common_subsequence(const std::vector<T>& a, const std::vector<T>& b, WorkBudget* work = nullptr) {
  std::vector<int64_t> row(b.size() + 1);
  for (const T& unit : a) {
    if (work && !work->spend(table_work(b.size()))) return -1;
    int64_t diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t above = row[j + 1];
      row[j + 1] = unit == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

// The number of insertions, deletions and substitutions (Levenshtein, 1966), or -1 when the budget is spent.
template <class T>
int64_t edit_distance(const std::vector<T>& a, const std::vector<T>& b, WorkBudget* work = nullptr) {
  std::vector<int64_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (const T& unit : a) {
    if (work && !work->spend(table_work(b.size()))) return -1;
    int64_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t above = row[j + 1];
      row[j + 1] = std::min({diagonal + (unit == b[j] ? 0 : 1), above + 1, row[j] + 1});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace makar
