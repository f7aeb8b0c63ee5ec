// Draws the next tokens of rows as the host's sampler does (src/infer/samplers), by sorting.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "kernels/cpu_device.h"
#include "kernels/host_math.h"
#include "kernels/sampling.h"

namespace makar {

using namespace kernels;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Candidate {
  float logit, weight;
  int64_t id;
};

int64_t draw(const std::vector<float>& logits, const RowSampler& s) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] < kInfinity)) return -1;
    if (logits[i] > -kInfinity) all.push_back({logits[i], 0, static_cast<int64_t>(i)});
  }
  if (all.empty()) return -1;
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.logit > b.logit; });
  if (s.temperature <= 0 || s.top_k == 1) return all[0].id;
  if (s.top_k > 0 && s.top_k < static_cast<int64_t>(all.size())) {
    const float last = all[static_cast<size_t>(s.top_k - 1)].logit;
    std::erase_if(all, [&](const auto& c) { return c.logit < last; });
  }
  for (Candidate& c : all) c.logit /= s.temperature;
  if (!std::isfinite(all.front().logit) || !std::isfinite(all.back().logit)) return -1;
  for (Candidate& c : all) {
    const float distance = c.logit - all[0].logit;
    exp_of(&distance, &c.weight, 1);
  }
  const auto total = [&] {
    int64_t sum = 0;
    for (const Candidate& c : all) sum += weight_units(c.weight);
    return sum;
  };
  if (s.top_p < 1) {
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    });
    const int64_t target = units_for(s.top_p, total());
    int64_t sum = 0;
    size_t kept = 0;
    while (kept < all.size() && sum < target) sum += weight_units(all[kept++].weight);
    all.resize(std::max<size_t>(kept, 1));
  }
  std::erase_if(all, [&](const auto& c) { return c.weight < s.min_p; });
  if (all.empty() || total() <= 0) return -1;
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  int64_t left = drawn_unit(Rng(s.seed, Purpose::kSample).uniform_double(s.index), total());
  for (const Candidate& c : all)
    if ((left -= weight_units(c.weight)) < 0) return c.id;
  return all.back().id;
}

}  // namespace

void CpuDevice::sample_rows(const SampleRows& a) {
  pool_->for_ranges(a.rows, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> logits(static_cast<size_t>(a.cols));
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < a.cols; ++c)
        logits[static_cast<size_t>(c)] = a.type == DType::kF32
                                             ? static_cast<const float*>(a.x)[r * a.cols + c]
                                             : from_bf16(static_cast<const Bf16*>(a.x)[r * a.cols + c].bits);
      a.y[r] = draw(logits, a.samplers[r]);
      ++a.samplers[r].index;
    }
  });
}

}  // namespace makar
