// Maps the i-th draw of a mixture to its source and to the rank of the draw within that source, directly for
// any i. Draws come in blocks of 1024. Each block contains every source in its exact share, in an order
// shuffled by the seed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/permutation.h"

namespace makar {

class Mixture {
 public:
  static constexpr uint64_t kBlock = 1024;
  // Weights must be positive; only their ratios matter.
  Mixture(const std::vector<double>& weights, uint64_t seed);
  struct Draw {
    size_t source;
    uint64_t rank;
  };
  Draw operator()(uint64_t i) const;
  double share(size_t source) const {
    return static_cast<double>(firsts_[source + 1] - firsts_[source]) / static_cast<double>(kBlock);
  }

 private:
  std::vector<uint64_t> firsts_;  // the first slot of each source in a block, then kBlock
  uint64_t seed_;
};

}  // namespace makar
