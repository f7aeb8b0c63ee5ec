#include "infer/samplers/ranking.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace makar {
namespace {

constexpr size_t kBuckets = 1024, kSmall = 192;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What is still in question: indices (all while `all`), inside which the sum has to reach `target`.
struct Search {
  std::span<const float> keys, weights;
  std::vector<uint32_t> in;
  bool all = true;
  double target = 0;

  size_t size() const { return all ? keys.size() : in.size(); }
  size_t at(size_t i) const { return all ? i : in[i]; }
  double weight(size_t index) const { return weights.empty() ? 1.0 : static_cast<double>(weights[index]); }
};

Place walk(Search& s) {
  if (s.all) {
    s.in.resize(s.keys.size());
    std::iota(s.in.begin(), s.in.end(), 0u);
    s.all = false;
  }
  std::sort(s.in.begin(), s.in.end(),
            [&](uint32_t a, uint32_t b) { return s.keys[a] != s.keys[b] ? s.keys[a] > s.keys[b] : a < b; });
  double sum = 0;
  size_t last = s.in.front();  // rounding may keep the sum below the target: the last place with weight then
  for (const uint32_t index : s.in) {
    sum += s.weight(index);
    if (s.weight(index) > 0) last = index;
    if (sum >= s.target) return {s.keys[index], index};
  }
  return {s.keys[last], last};
}

// Leaves the one bucket of keys in [low, high] in which the sum passes the target; false when all fell into
// one.
bool narrow(Search& s, float low, float high) {
  const double width = static_cast<double>(high) - low;
  const float scale = static_cast<float>(static_cast<double>(kBuckets) / width);
  const auto bucket = [&](size_t index) {
    const float b = (high - s.keys[index]) * scale;
    return b < static_cast<float>(kBuckets - 1) ? static_cast<size_t>(b) : kBuckets - 1;
  };
  std::array<double, kBuckets> sums{};
  std::array<uint32_t, kBuckets> counts{};
  for (size_t i = 0; i < s.size(); ++i) {
    const size_t index = s.at(i), b = bucket(index);
    sums[b] += s.weight(index);
    ++counts[b];
  }
  double above = 0;
  size_t found = 0, lasting = 0;
  for (; found < kBuckets && above + sums[found] < s.target; above += sums[found++])
    if (sums[found] > 0) lasting = found;
  if (found == kBuckets) above -= sums[found = lasting];
  if (counts[found] == s.size()) return false;
  std::vector<uint32_t> kept;
  kept.reserve(counts[found]);
  for (size_t i = 0; i < s.size(); ++i)
    if (bucket(s.at(i)) == found) kept.push_back(static_cast<uint32_t>(s.at(i)));
  s.in = std::move(kept);
  s.all = false;
  s.target -= above;
  return true;
}

Place find(Search s) {
  while (s.size() > kSmall) {
    float low = kInfinity, high = -kInfinity;
    for (size_t i = 0; i < s.size(); ++i) {
      const float key = s.keys[s.at(i)];
      low = key < low ? key : low;
      high = key > high ? key : high;
    }
    const double width = static_cast<double>(high) - low;
    // A width whose buckets no float can tell apart is left to the sort.
    if (!(width > 0) || !std::isfinite(static_cast<float>(kBuckets / width)) || width > 3e38) break;
    if (!narrow(s, low, high)) break;
  }
  return walk(s);
}

}  // namespace

Place place_of_count(std::span<const float> keys, size_t count) {
  Search s{keys, {}, {}, true, static_cast<double>(std::min(std::max<size_t>(count, 1), keys.size()))};
  return find(std::move(s));
}

Place place_of_mass(std::span<const float> keys, std::span<const float> weights, double share) {
  std::array<double, 8> lanes{};
  for (size_t i = 0; i < weights.size(); ++i) lanes[i % 8] += weights[i];
  const double total = std::accumulate(lanes.begin(), lanes.end(), 0.0);
  return find({keys, weights, {}, true, share * total});
}

std::vector<size_t> largest(std::span<const float> keys, size_t count) {
  std::vector<size_t> out;
  if (keys.empty() || count == 0) return out;
  const Place last = place_of_count(keys, count);
  for (size_t i = 0; i < keys.size(); ++i)
    if (last.covers(keys[i], i)) out.push_back(i);
  std::sort(out.begin(), out.end(),
            [&](size_t a, size_t b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; });
  return out;
}

Extremes extremes(std::span<const float> values) {
  constexpr size_t kLanes = 16;  // independent lanes, which compilers turn into vectors
  std::array<float, kLanes> low, high;
  std::array<uint32_t, kLanes> barred{}, broken{};
  low.fill(kInfinity), high.fill(-kInfinity);
  const auto look = [&](float x, size_t lane) {
    high[lane] = x > high[lane] ? x : high[lane];
    const float up = x == -kInfinity ? kInfinity : x;
    low[lane] = up < low[lane] ? up : low[lane];
    barred[lane] += x == -kInfinity ? 1u : 0u;
    broken[lane] |= x < kInfinity ? 0u : 1u;
  };
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) look(values[i + lane], lane);
  for (; i < values.size(); ++i) look(values[i], i % kLanes);
  return {*std::min_element(low.begin(), low.end()), *std::max_element(high.begin(), high.end()),
          std::accumulate(barred.begin(), barred.end(), size_t{0}),
          std::any_of(broken.begin(), broken.end(), [](uint32_t b) { return b != 0; })};
}

size_t find_value(std::span<const float> values, float value) {
  constexpr size_t kBlock = 64;
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
