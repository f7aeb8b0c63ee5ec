// Which source the i-th draw of a mixture comes from, and the how-many-eth of that source it is: computed
// directly for any i. Draws go in blocks of 1024 in which every source has its exact share, in an order
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
  // Weights above zero, in any unit.
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
  std::vector<uint64_t> firsts_;  // of each source's slots in a block, and kBlock at the end
  uint64_t seed_;
};

}  // namespace makar
