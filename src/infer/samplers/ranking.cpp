#include "infer/samplers/ranking.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>

#include "kernels/sampling.h"

namespace makar {
namespace {

// So many keys or fewer are sorted at once; more are narrowed by buckets first, where that is possible.
constexpr size_t kSortedKeys = 192;
constexpr size_t kBuckets = 1024;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

float block_max(const float* x) {
  std::array<float, 16> lanes;
  std::copy_n(x, 16, lanes.begin());
  for (size_t i = 16; i < kBlock; i += 16)
    for (size_t lane = 0; lane < 16; ++lane)
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
  return *std::max_element(lanes.begin(), lanes.end());
}

// Search state: among the keys with indices `remaining`, the sum of weights has to reach `target`. Weights
// are integers, so sums do not depend on the order: units (kernels/sampling.h), or 1 each without `weights`.
struct Search {
  std::span<const float> keys, weights;
  std::vector<uint32_t> remaining;
  int64_t target = 0;

  int64_t weight(size_t index) const { return weights.empty() ? 1 : kernels::weight_units(weights[index]); }
};

// Sorts the remaining keys and finds the position among them.
Rank sort_and_find(Search& s) {
  std::sort(s.remaining.begin(), s.remaining.end(),
            [&](uint32_t a, uint32_t b) { return s.keys[a] != s.keys[b] ? s.keys[a] > s.keys[b] : a < b; });
  int64_t sum = 0;
  uint32_t last = s.remaining.front();  // the last key with weight
  for (const uint32_t index : s.remaining) {
    sum += s.weight(index);
    if (s.weight(index) > 0) last = index;
    if (sum >= s.target) return {s.keys[index], index};
  }
  return {s.keys[last], last};
}

// Divides a range of keys into buckets of equal width, highest first.
struct Buckets {
  float high, scale;
  Buckets(float low, float top)
      : high(top), scale(static_cast<float>(kBuckets / (static_cast<double>(top) - low))) {}
  // Ranges too narrow or too wide for float buckets are left to the sort.
  bool useful() const { return scale > 1e-30f && scale < 1e30f; }
  float position(float key) const { return (high - key) * scale; }
  size_t of(float key) const {
    const float b = position(key);
    return b < static_cast<float>(kBuckets - 1) ? static_cast<size_t>(b) : kBuckets - 1;
  }
};

// The bucket in which the running sum reaches the target; subtracts the sum of the buckets above from it.
size_t choose_bucket(const std::array<int64_t, kBuckets>& sums, int64_t& target) {
  int64_t above = 0;
  size_t bucket = 0, last_with_weight = 0;
  int64_t above_last = 0;
  for (; bucket < kBuckets && above + sums[bucket] < target; above += sums[bucket++])
    if (sums[bucket] > 0) last_with_weight = bucket, above_last = above;
  if (bucket == kBuckets) bucket = last_with_weight, above = above_last;
  target -= above;
  return bucket;
}

// The first pass, over all keys: plain loops that compilers can vectorise.
bool narrow_all(Search& s, const Buckets& buckets) {
  std::array<int64_t, kBuckets> sums{};
  const size_t n = s.keys.size();
  if (s.weights.empty())
    for (size_t i = 0; i < n; ++i) sums[buckets.of(s.keys[i])] += 1;
  else
    for (size_t i = 0; i < n; ++i) sums[buckets.of(s.keys[i])] += kernels::weight_units(s.weights[i]);
  const size_t bucket = choose_bucket(sums, s.target);
  const float from = static_cast<float>(bucket), to = bucket == kBuckets - 1 ? kInfinity : from + 1;
  s.remaining.clear();
  for_blocks(
      n, [&](size_t i) { return buckets.position(s.keys[i]) >= from && buckets.position(s.keys[i]) < to; },
      [&](size_t i, bool passes) {
        if (passes) s.remaining.push_back(static_cast<uint32_t>(i));
      });
  return s.remaining.size() < n;
}

// Later passes, over the remaining keys.
bool narrow(Search& s, const Buckets& buckets) {
  std::array<int64_t, kBuckets> sums{};
  for (const uint32_t i : s.remaining) sums[buckets.of(s.keys[i])] += s.weight(i);
  const size_t bucket = choose_bucket(sums, s.target), before = s.remaining.size();
  s.remaining.erase(std::remove_if(s.remaining.begin(), s.remaining.end(),
                                   [&](uint32_t i) { return buckets.of(s.keys[i]) != bucket; }),
                    s.remaining.end());
  return s.remaining.size() < before;
}

Rank find_rank(Search s, const Extremes& e) {
  const Buckets first(e.low, e.high);
  bool smaller = s.keys.size() > kSortedKeys && first.useful() && narrow_all(s, first);
  if (!smaller) {
    s.remaining.resize(s.keys.size());
    std::iota(s.remaining.begin(), s.remaining.end(), 0u);
  }
  while (smaller && s.remaining.size() > kSortedKeys) {
    float low = kInfinity, high = -kInfinity;
    for (const uint32_t i : s.remaining) low = std::min(low, s.keys[i]), high = std::max(high, s.keys[i]);
    const Buckets next(low, high);
    smaller = next.useful() && narrow(s, next);
  }
  return sort_and_find(s);
}

// For a small count among many keys: at least `count` keys are >= the count-th largest block maximum, so the
// position is in one of the few blocks that reach it.
Rank find_few(std::span<const float> keys, size_t count) {
  std::vector<float> maxima(keys.size() / kBlock);
  for (size_t b = 0; b < maxima.size(); ++b) maxima[b] = block_max(keys.data() + b * kBlock);
  std::vector<float> order = maxima;
  std::nth_element(order.begin(), order.begin() + static_cast<int64_t>(count - 1), order.end(),
                   std::greater<>());
  const float bound = order[count - 1];
  Search s{keys, {}, {}, static_cast<int64_t>(count)};
  const auto take = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i)
      if (keys[i] >= bound) s.remaining.push_back(static_cast<uint32_t>(i));
  };
  for (size_t b = 0; b < maxima.size(); ++b)
    if (maxima[b] >= bound) take(b * kBlock, (b + 1) * kBlock);
  take(maxima.size() * kBlock, keys.size());
  return sort_and_find(s);
}

}  // namespace

Rank rank_of_count(std::span<const float> keys, const Extremes& e, size_t count) {
  count = std::min(std::max<size_t>(count, 1), keys.size());
  const bool few = count * kBlock * 8 <= keys.size();  // most blocks are skipped
  if (few) return find_few(keys, count);
  return find_rank({keys, {}, {}, static_cast<int64_t>(count)}, e);
}

int64_t units_of(std::span<const float> weights) {
  int64_t sum = 0;
  for (const float w : weights) sum += kernels::weight_units(w);
  return sum;
}

size_t index_of_share(std::span<const float> weights, double share) {
  std::vector<int64_t> sums;  // of blocks
  int64_t total = 0;
  for (size_t i = 0; i < weights.size(); i += kBlock)
    total += sums.emplace_back(units_of(weights.subspan(i, std::min(kBlock, weights.size() - i))));
  if (total == 0)  // no weight counts: the largest
    return static_cast<size_t>(std::max_element(weights.begin(), weights.end()) - weights.begin());
  int64_t left = kernels::drawn_unit(share, total);
  size_t block = 0;  // in which the sum exceeds the share
  while (left >= sums[block]) left -= sums[block++];
  size_t i = block * kBlock;
  while ((left -= kernels::weight_units(weights[i])) >= 0) ++i;
  return i;
}

Rank rank_of_mass(std::span<const float> keys, const Extremes& e, std::span<const float> weights,
                  int64_t units) {
  return find_rank({keys, weights, {}, units}, e);
}

std::vector<size_t> largest(std::span<const float> keys, size_t count) {
  std::vector<size_t> out;
  if (keys.empty() || count == 0) return out;
  const Rank last = rank_of_count(keys, extremes(keys), count);
  for_blocks(
      keys.size(), [&](size_t i) { return keys[i] >= last.key; },
      [&](size_t i, bool) {
        if (last.covers(keys[i], i)) out.push_back(i);
      });
  std::sort(out.begin(), out.end(),
            [&](size_t a, size_t b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; });
  return out;
}

Extremes extremes(std::span<const float> values) {
  constexpr size_t kLanes = 16;  // independent lanes, so that compilers vectorise
  std::array<float, kLanes> low, high;
  std::array<uint32_t, kLanes> masked{}, broken{};
  low.fill(kInfinity), high.fill(-kInfinity);
  const auto update = [&](float x, size_t lane) {
    high[lane] = x > high[lane] ? x : high[lane];
    const float up = x == -kInfinity ? kInfinity : x;
    low[lane] = up < low[lane] ? up : low[lane];
    masked[lane] += x == -kInfinity ? 1u : 0u;
    broken[lane] |= x < kInfinity ? 0u : 1u;
  };
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) update(values[i + lane], lane);
  for (; i < values.size(); ++i) update(values[i], i % kLanes);
  return {*std::min_element(low.begin(), low.end()), *std::max_element(high.begin(), high.end()),
          std::accumulate(masked.begin(), masked.end(), size_t{0}),
          std::any_of(broken.begin(), broken.end(), [](uint32_t b) { return b != 0; })};
}

size_t find_value(std::span<const float> values, float value) {
  size_t i = 0;
  for (; i + kBlock <= values.size(); i += kBlock) {
    uint32_t hit = 0;
    for (size_t j = 0; j < kBlock; ++j) hit |= values[i + j] == value ? 1u : 0u;
    if (hit) break;
  }
  while (i < values.size() && values[i] != value) ++i;
  return i;
}

}  // namespace makar
