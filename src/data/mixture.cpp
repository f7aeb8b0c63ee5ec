#include "data/mixture.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace makar {

Mixture::Mixture(const std::vector<double>& weights, uint64_t seed) : seed_(seed) {
  check(!weights.empty() && weights.size() <= kBlock, "a mixture has 1 to 1024 sources");
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  // Largest-remainder rounding, with at least one slot per source.
  std::vector<uint64_t> slots;
  std::vector<std::pair<double, size_t>> surpluses;
  uint64_t used = 0;
  for (size_t s = 0; s < weights.size(); ++s) {
    check(weights[s] > 0, "weights must be above zero");
    const double exact = weights[s] / total * static_cast<double>(kBlock);
    slots.push_back(std::max<uint64_t>(1, static_cast<uint64_t>(exact)));
    surpluses.emplace_back(static_cast<double>(slots.back()) - exact, s);
    used += slots.back();
  }
  std::sort(surpluses.begin(), surpluses.end());
  for (size_t i = 0; used < kBlock; ++i, ++used) ++slots[surpluses[i % surpluses.size()].second];
  while (used > kBlock) --*std::max_element(slots.begin(), slots.end()), --used;
  firsts_.push_back(0);
  for (const uint64_t n : slots) firsts_.push_back(firsts_.back() + n);
}

Mixture::Draw Mixture::operator()(uint64_t i) const {
  if (firsts_.size() == 2) return {0, i};
  const uint64_t block = i / kBlock;
  constexpr uint64_t kStream = 0x6D69785F626C6F63u;  // separates these permutations from the shuffles
  const uint64_t slot = Permutation(kBlock, seed_ ^ kStream, block)(i % kBlock);
  const auto next = std::upper_bound(firsts_.begin(), firsts_.end(), slot);
  const auto source = static_cast<size_t>(next - firsts_.begin()) - 1;
  return {source, block * (firsts_[source + 1] - firsts_[source]) + slot - firsts_[source]};
}

}  // namespace makar
