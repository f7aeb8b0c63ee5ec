// Places in a descending order that is never sorted as a whole: buckets find the neighbourhood, only that is
// sorted. At 128k keys this takes a fraction of a millisecond where a sort takes ten.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace makar {

// A place of the order by (key descending, index ascending).
struct Place {
  float key;
  uint32_t index;
  bool covers(float other, size_t at) const {  // without branches, for blocks
    const uint32_t more = other > key, equal = other == key, before = static_cast<uint32_t>(at) <= index;
    return (more | (equal & before)) != 0;
  }
};

struct Extremes {
  float low, high;  // of the finite values; low > high: there is none
  size_t barred;    // values of -infinity
  bool broken;      // a NaN or +infinity
};
Extremes extremes(std::span<const float> values);

// The first place at which the running count reaches `count` (1 or more).
Place place_of_count(std::span<const float> keys, const Extremes& e, size_t count);
// The first place at which the running sum of weights reaches `mass`. Keys are finite with extremes `e`,
// weights not negative, neither is empty.
Place place_of_mass(std::span<const float> keys, const Extremes& e, std::span<const float> weights,
                    double mass);
// Indices of the `count` largest keys in order.
std::vector<size_t> largest(std::span<const float> keys, size_t count);

double sum_of(std::span<const float> weights);
// The first index at which the running sum of weights, in order of their indices, exceeds `share` of the
// total.
size_t index_of_share(std::span<const float> weights, double share);

// Calls visit(i, test(i)) for the i below n whose block has one with test(i). The test runs over whole blocks
// in vectors.
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

// The first place of `value`.
size_t find_value(std::span<const float> values, float value);

}  // namespace makar
