// A permutation of [0, n) that is computed, not stored: a Feistel network on the smallest even number of bits
// that holds n, with cycle walking (Black and Rogaway, 2002). Keyed by (seed, epoch).
#pragma once
#include <cstdint>

#include "base/rng.h"

namespace makar {

class Permutation {
 public:
  Permutation(uint64_t n, uint64_t seed, uint64_t epoch) : n_(n), rng_(seed, Purpose::kShuffle, epoch) {
    while (uint64_t{1} << (2 * half_bits_) < n) ++half_bits_;
  }
  uint64_t size() const { return n_; }
  // The image of i; i < size().
  uint64_t operator()(uint64_t i) const {
    do i = feistel(i);
    while (i >= n_);
    return i;
  }

 private:
  uint64_t feistel(uint64_t x) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = x >> half_bits_, right = x & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (rng_.bits(round << 32 | right)[0] & mask);
      left = right, right = next;
    }
    return left << half_bits_ | right;
  }
  uint64_t n_;
  Rng rng_;
  unsigned half_bits_ = 1;
};

}  // namespace makar
