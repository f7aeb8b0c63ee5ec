// Random draws for training word vectors: a small generator for inner loops, and words in proportion to a
// weight.
#pragma once
#include <cstdint>
#include <vector>

#include "base/rng.h"

namespace makar {

// splitmix64, seeded by a draw of the counter-based generator: every (seed, epoch, chunk) has its own stream.
class FastRandom {
 public:
  FastRandom(uint64_t seed, uint64_t epoch, uint64_t chunk) {
    const auto b = Rng(seed, Purpose::kSample, epoch).bits(chunk);
    state_ = uint64_t{b[0]} << 32 | b[1];
  }
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((next() >> 32) * n >> 32); }
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }

 private:
  uint64_t state_;
};

// Walker's alias method: one draw, one comparison.
class AliasTable {
 public:
  AliasTable() = default;
  explicit AliasTable(const std::vector<double>& weights);
  uint32_t draw(FastRandom& random) const {
    const uint64_t r = random.next();
    const auto at = static_cast<uint32_t>((r >> 32) * cells_.size() >> 32);
    return static_cast<uint32_t>(r) < cells_[at].keep ? at : cells_[at].other;
  }

 private:
  struct Cell {
    uint32_t keep, other;  // draws this cell with probability keep / 2^32, else `other`
  };
  std::vector<Cell> cells_;
};

}  // namespace makar
