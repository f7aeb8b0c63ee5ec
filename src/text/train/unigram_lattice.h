// Every way to cut the words into pieces: for each character of each word, the pieces that begin there.
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
  // Words laid end to end; word w has the characters [starts[w], starts[w + 1] - 1), then an end mark.
  std::vector<uint32_t> starts;
  std::vector<uint64_t> counts;
  std::vector<uint64_t> edge_starts;  // by character, one more than there are
  std::vector<Edge> edges;            // from one character, shortest first

  // Expected counts of the pieces under `log_p`, and the mean loss of a word. Piece 0 stands for unknown
  // characters.
  std::vector<double> expect(const std::vector<double>& log_p, ThreadPool& pool, double* loss) const;
  // Counts of the pieces in the best segmentations.
  std::vector<double> count_best(const std::vector<double>& log_p, ThreadPool& pool) const;
  // Drops the edges of removed pieces (UINT32_MAX) and renumbers the others.
  void renumber(const std::vector<uint32_t>& to);

 private:
  template <class Work>
  std::vector<double> over_chunks(size_t pieces, ThreadPool& pool, double* extra, Work work) const;
};

// The logarithm given to an unknown character: the smallest of the pieces, less ten.
double unknown_log_p(const std::vector<double>& log_p);

}  // namespace makar
