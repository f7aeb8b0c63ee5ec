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
  size_t index;
  bool covers(float other, size_t at) const { return other > key || (other == key && at <= index); }
};

// The first place at which the running count reaches `count` (1 or more).
Place place_of_count(std::span<const float> keys, size_t count);
// The first place at which the running sum of weights reaches `share` of their total. Keys are finite,
// weights not negative, neither is empty.
Place place_of_mass(std::span<const float> keys, std::span<const float> weights, double share);
// Indices of the `count` largest keys in order.
std::vector<size_t> largest(std::span<const float> keys, size_t count);

struct Extremes {
  float low, high;  // of the finite values; low > high: there is none
  size_t barred;    // values of -infinity
  bool broken;      // a NaN or +infinity
};
Extremes extremes(std::span<const float> values);
// The first place of `value`.
size_t find_value(std::span<const float> values, float value);

}  // namespace makar
