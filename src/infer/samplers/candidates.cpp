// The candidates of a draw: weights, sums and truncation.
#include <algorithm>
#include <cmath>
#include <limits>

#include "infer/samplers/step.h"
#include "kernels/host_math.h"
#include "kernels/sampling.h"

namespace makar {

void Candidates::reset(std::span<const float> logits, const Extremes& e) {
  vocab_ = logits.size();
  logits_.assign(logits.begin(), logits.end());
  has_ids_ = has_weights_ = false;
  if (e.masked > 0) keep([this, low = e.low](size_t i) { return logits_[i] >= low; });
  units_.reset();
  extremes_ = {e.low, e.high, 0, false};
}

std::span<const float> Candidates::weights() {
  if (!has_weights_ || extremes().high != zero_) {  // or the token of weight 1 was removed
    units_.reset();
    const float best = zero_ = extremes().high;
    std::vector<float>& distance = scratch_;
    distance.resize(size());
    for (size_t i = 0; i < size(); ++i) distance[i] = logits_[i] - best;
    weights_.resize(size());
    kernels::exp_of(distance.data(), weights_.data(), static_cast<int64_t>(size()));
    has_weights_ = true;
  }
  return weights_;
}

int64_t Candidates::units() {
  const auto w = weights();
  if (!units_) units_ = units_of(w);
  return *units_;
}

double Candidates::total() { return static_cast<double>(units()) / kernels::kWeightUnits; }

const Extremes& Candidates::extremes() {
  if (!extremes_) extremes_ = makar::extremes(logits_);
  return *extremes_;
}

double Candidates::log_total() {
  const double sum = total();
  return static_cast<double>(zero_) + std::log(sum);
}

double Candidates::entropy() {
  // ln p = x - log_total, so p = 0 contributes nothing.
  const double lse = log_total();
  const auto w = weights();
  double sum = 0;
  for (size_t i = 0; i < size(); ++i)
    sum += static_cast<double>(w[i]) * (lse - static_cast<double>(logits_[i]));
  return sum / total();
}

void Candidates::divide(float by) {
  const Extremes e = extremes();
  if (std::isfinite(e.high / by) && std::isfinite(e.low / by)) {
    for (float& x : logits_) x /= by;
    extremes_ = {e.low / by, e.high / by, 0, false};
  } else {  // only the distance to the best logit matters; overflow is harmless
    for (float& x : logits_) x = std::max((x - e.high) / by, std::numeric_limits<float>::lowest());
    extremes_.reset();
  }
  has_weights_ = false;
  units_.reset();
}

void Candidates::resize(size_t count) {
  ids_.resize(count), logits_.resize(count);
  if (has_weights_) weights_.resize(count);
  has_ids_ = true;
  units_.reset();
  extremes_.reset();
}

void Candidates::only_best() {
  const size_t best = find_value(logits_, extremes().high);
  ids_[0] = static_cast<int32_t>(id(best));
  logits_[0] = logits_[best];
  has_weights_ = false;
  resize(1);
}

}  // namespace makar
