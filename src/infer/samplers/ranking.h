// Finds ranks in descending order without sorting all keys: buckets narrow the range, and only that range is
// sorted. At 128k keys this takes a fraction of a millisecond; a full sort takes ten milliseconds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace makar {

// A position in the order (key descending, index ascending).
struct Rank {
  float key;
  uint32_t index;
  // Whether the key `other` at index `at` is at this position or before it. Branch-free, so that blocks
  // vectorise.
  bool covers(float other, size_t at) const {
    const uint32_t more = other > key, equal = other == key, before = static_cast<uint32_t>(at) <= index;
    return (more | (equal & before)) != 0;
  }
};

struct Extremes {
  float low, high;  // of the finite values; low > high: there are none
  size_t masked;    // number of -infinity values
  bool broken;      // contains a NaN or +infinity
};
Extremes extremes(std::span<const float> values);

// The first position at which the running count reaches `count` (>= 1).
Rank rank_of_count(std::span<const float> keys, const Extremes& e, size_t count);
// The first position at which the running sum of weights reaches `units`. Requires finite keys with extremes
// `e` and weights from 0 to 1; neither may be empty.
Rank rank_of_mass(std::span<const float> keys, const Extremes& e, std::span<const float> weights,
                  int64_t units);
// Indices of the `count` largest keys, in descending order.
std::vector<size_t> largest(std::span<const float> keys, size_t count);

int64_t units_of(std::span<const float> weights);  // the sum, in units of kernels/sampling.h
// The first index at which the running sum of weights, in index order, exceeds `share` of the total.
size_t index_of_share(std::span<const float> weights, double share);

// Calls visit(i, test(i)) for every i < n in a block of which some test(i) is true, and in the last block if
// it is incomplete. The test runs over whole blocks, vectorised.
constexpr size_t kBlock = 64;
template <class Test, class Visit>
void for_blocks(size_t n, const Test& test, const Visit& visit) {
  for (size_t i = 0; i < n; i += kBlock) {
    uint32_t any = 0;
    if (i + kBlock <= n)
      for (size_t j = i; j < i + kBlock; ++j) any |= test(j) ? 1u : 0u;
    if (any || i + kBlock > n)
      for (size_t j = i; j < i + kBlock && j < n; ++j) visit(j, test(j));
  }
}

// The first index of `value`.
size_t find_value(std::span<const float> values, float value);

}  // namespace makar
