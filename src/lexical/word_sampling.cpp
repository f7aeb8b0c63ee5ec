#include "lexical/word_sampling.h"

#include "base/error.h"

namespace makar {

AliasTable::AliasTable(const std::vector<double>& weights) : cells_(weights.size()) {
  check(!weights.empty(), "weights must not be empty");
  double sum = 0;
  for (const double w : weights) sum += w;
  std::vector<double> scaled;
  std::vector<uint32_t> small, large;
  for (uint32_t i = 0; i < weights.size(); ++i) {
    scaled.push_back(weights[i] / sum * static_cast<double>(weights.size()));
    (scaled[i] < 1 ? small : large).push_back(i);
  }
  while (!small.empty() && !large.empty()) {
    const uint32_t s = small.back(), l = large.back();
    small.pop_back();
    cells_[s] = {static_cast<uint32_t>(scaled[s] * 4294967295.0), l};
    scaled[l] -= 1 - scaled[s];
    if (scaled[l] < 1) large.pop_back(), small.push_back(l);
  }
  for (const auto* rest : {&small, &large})
    for (const uint32_t i : *rest) cells_[i] = {4294967295u, i};
}

}  // namespace makar
