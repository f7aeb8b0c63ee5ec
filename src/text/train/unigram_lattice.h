// All segmentations of the words into pieces: for each character of each word, the pieces that start there.
#pragma once
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace makar {

class UnigramLattice {
 public:
  struct Edge {
    uint32_t piece;
    uint32_t length;  // in characters
  };
  // Concatenated words; word w has the characters [starts[w], starts[w + 1] - 1), then an end mark.
  std::vector<uint32_t> starts;
  std::vector<uint64_t> counts;
  std::vector<uint64_t> edge_starts;  // by character, and one final entry
  std::vector<Edge> edges;            // by character, shortest first

  // Expected counts of the pieces under `log_p`, and the mean loss per word. Piece 0 is for unknown
  // characters.
  std::vector<double> expected_counts(const std::vector<double>& log_p, ThreadPool& pool, double* loss) const;
  // Counts of the pieces in the best segmentations.
  std::vector<double> count_best(const std::vector<double>& log_p, ThreadPool& pool) const;
  // Gives each piece its new id; edges of pieces with the new id UINT32_MAX are removed.
  void renumber(const std::vector<uint32_t>& new_ids);

 private:
  template <class Work>
  std::vector<double> sum_over_chunks(size_t pieces, ThreadPool& pool, double* extra, Work work) const;
};

// The log-probability of an unknown character: the smallest of the pieces, minus ten.
double unknown_log_p(const std::vector<double>& log_p);

}  // namespace makar
