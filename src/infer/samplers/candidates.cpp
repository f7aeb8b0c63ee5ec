#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "infer/samplers/step.h"
#include "kernels/kernels.h"

namespace makar {

Candidates::Candidates(std::span<const float> logits, size_t barred)
    : vocab_(logits.size()), logits_(logits.begin(), logits.end()) {
  constexpr float kBarred = -std::numeric_limits<float>::infinity();
  if (barred > 0) keep([this](size_t i) { return logits_[i] > kBarred; });
}

std::span<const float> Candidates::probabilities() {
  if (probabilities_.size() != size()) {
    probabilities_.resize(size());
    kernels::cpu().softmax(logits_.data(), probabilities_.data(), static_cast<int64_t>(size()));
  }
  return probabilities_;
}

double Candidates::entropy() {
  // -sum p ln p with ln p = x - lse, so that a p of zero adds nothing.
  const float lse = kernels::cpu().log_sum_exp(logits_.data(), static_cast<int64_t>(size()));
  const auto p = probabilities();
  double sum = 0;
  for (size_t i = 0; i < size(); ++i) sum += p[i] * (static_cast<double>(lse) - logits_[i]);
  return sum;
}

void Candidates::divide(float by) {
  const Extremes e = extremes(logits_);
  if (std::isfinite(e.high / by) && std::isfinite(e.low / by)) {
    for (float& x : logits_) x /= by;
  } else {  // only the distance to the best counts, and it may overflow without harm
    for (float& x : logits_) x = std::max((x - e.high) / by, std::numeric_limits<float>::lowest());
  }
  probabilities_.clear();
}

void Candidates::number() {
  ids_.resize(size());
  std::iota(ids_.begin(), ids_.end(), 0);
}

void Candidates::resize(size_t count) {
  logits_.resize(count);
  ids_.resize(count);
  probabilities_.clear();
}

void Candidates::only_best() {
  const size_t best = find_value(logits_, extremes(logits_).high);
  logits_[0] = logits_[best], ids_[0] = ids_[best];
  resize(1);
}

}  // namespace makar
