#include "infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/rng.h"

namespace makar {

int64_t sample(std::span<const float> logits, const SamplerOptions& o, uint64_t index) {
  check(!logits.empty(), "sampling from no logits");
  const auto best = [&] { return std::max_element(logits.begin(), logits.end()) - logits.begin(); };
  if (o.temperature <= 0.0f || o.top_k == 1) return best();
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t keep = o.top_k > 0 ? std::min(order.size(), static_cast<size_t>(o.top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(keep), order.end(),
                    [&](int64_t a, int64_t b) {
                      const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  order.resize(keep);
  std::vector<double> p(keep);
  const double top = logits[static_cast<size_t>(order[0])];
  double total = 0;
  for (size_t i = 0; i < keep; ++i)
    total += p[i] =
        std::exp((static_cast<double>(logits[static_cast<size_t>(order[i])]) - top) / o.temperature);
  if (!(total > 0) || !std::isfinite(total)) return best();
  // Top-p: the smallest head of the list whose probability reaches top_p.
  double mass = 0;
  size_t count = 0;
  while (count < keep && (count == 0 || mass < static_cast<double>(o.top_p) * total)) mass += p[count++];
  double draw = Rng(o.seed, Purpose::kSample).uniform_double(index) * mass;
  for (size_t i = 0; i < count; ++i) {
    draw -= p[i];
    if (draw < 0) return order[i];
  }
  return order[count - 1];
}

}  // namespace makar
