#include "quant/fit.h"

#include <algorithm>
#include <cmath>

namespace makar {
namespace {

float weight(const FitValues& values, int i) { return values.w ? values.w[i] : 1.0f; }

float nearest(float v, float lo, float hi) { return std::min(hi, std::max(lo, std::nearbyint(v))); }

// Sums that give the best scale and offset for fixed integers.
struct Sums {
  double w = 0, x = 0, xx = 0, q = 0, qq = 0, xq = 0;
  double error(double scale, double offset) const {
    return xx + scale * scale * qq + offset * offset * w - 2 * scale * xq - 2 * offset * x +
           2 * scale * offset * q;
  }
};

// Four lanes, so that the compiler may vectorise without changing the order of additions.
constexpr int kLanes = 4;
struct Lanes {
  float v[kLanes] = {};
  double sum() const { return (static_cast<double>(v[0]) + v[1]) + (static_cast<double>(v[2]) + v[3]); }
};

// The sums that do not depend on the integers: the same for every starting point.
struct FixedSums {
  Lanes w, x, xx;
};
FixedSums fixed_sums(const FitValues& values) {
  FixedSums k;
  for (int i = 0; i < values.n; ++i) {
    const float w = weight(values, i), x = values.x[i];
    k.w.v[i % kLanes] += w, k.x.v[i % kLanes] += w * x, k.xx.v[i % kLanes] += w * x * x;
  }
  return k;
}

template <bool kWeighted>
Sums sums_of(const FitValues& values, const FixedSums& fixed, float inverse, float offset, float lo,
             float hi) {
  Lanes q, qq, xq;
  for (int i = 0; i + kLanes <= values.n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) {
      const float x = values.x[i + l], v = nearest((x - offset) * inverse, lo, hi);
      const float wv = kWeighted ? values.w[i + l] * v : v;
      q.v[l] += wv, qq.v[l] += wv * v, xq.v[l] += wv * x;
    }
  return {fixed.w.sum(), fixed.x.sum(), fixed.xx.sum(), q.sum(), qq.sum(), xq.sum()};
}

Sums sums_at(const FitValues& values, const FixedSums& fixed, float inverse, float offset, int lo, int hi) {
  const auto low = static_cast<float>(lo), high = static_cast<float>(hi);
  return values.w ? sums_of<true>(values, fixed, inverse, offset, low, high)
                  : sums_of<false>(values, fixed, inverse, offset, low, high);
}

}  // namespace

SymmetricFit fit_symmetric(const FitValues& values, int lo, int hi) {
  float max = 0;  // the value of largest magnitude
  for (int i = 0; i < values.n; ++i)
    if (std::abs(values.x[i]) > std::abs(max)) max = values.x[i];
  SymmetricFit best;
  if (max == 0) return best;
  best.error = INFINITY;
  const FixedSums fixed = fixed_sums(values);
  // Try scales that put the largest value near either end of the range, or slightly beyond.
  const float low = static_cast<float>(-lo), high = static_cast<float>(hi);
  for (const float end : {-low, high})
    for (int step = -9; step <= 9; ++step) {
      const float inverse = end * (1.0f + static_cast<float>(step) * 0.1f / high) / max;
      const Sums s = sums_at(values, fixed, inverse, 0, lo, hi);
      if (s.qq <= 0) continue;
      const double scale = s.xq / s.qq, error = s.error(scale, 0);
      if (error < best.error) best = {static_cast<float>(scale), error};
    }
  if (!std::isfinite(best.error)) best = {};
  return best;
}

AffineFit fit_affine(const FitValues& values, int hi, bool offset_not_positive) {
  float low = values.x[0], high = values.x[0];
  for (int i = 1; i < values.n; ++i) low = std::min(low, values.x[i]), high = std::max(high, values.x[i]);
  if (offset_not_positive) low = std::min(low, 0.0f);
  AffineFit best;
  if (high <= low) {  // all equal, or none above zero
    best.offset = low;
    for (int i = 0; i < values.n; ++i)
      best.error += weight(values, i) * (values.x[i] - low) * (values.x[i] - low);
    return best;
  }
  best.error = INFINITY;
  const FixedSums fixed = fixed_sums(values);
  for (int step = -10; step <= 10; ++step) {
    const float inverse = (static_cast<float>(hi) + 0.1f * static_cast<float>(step)) / (high - low);
    const Sums s = sums_at(values, fixed, inverse, low, 0, hi);
    const double determinant = s.w * s.qq - s.q * s.q;
    if (determinant <= 0) continue;
    double scale = (s.w * s.xq - s.x * s.q) / determinant, offset = (s.qq * s.x - s.q * s.xq) / determinant;
    if (offset_not_positive && offset > 0) offset = 0, scale = s.xq / s.qq;
    if (scale < 0) continue;
    const double error = s.error(scale, offset);
    if (error < best.error) best = {static_cast<float>(scale), static_cast<float>(offset), error};
  }
  if (!std::isfinite(best.error)) best = {(high - low) / static_cast<float>(hi), low, 0};
  return best;
}

double round_to(const FitValues& values, float scale, float offset, int lo, int hi, int8_t* q) {
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  double error = 0;
  for (int i = 0; i < values.n; ++i) {
    const float v = nearest((values.x[i] - offset) * inverse, static_cast<float>(lo), static_cast<float>(hi));
    const double residual = static_cast<double>(scale * v + offset) - values.x[i];
    error += weight(values, i) * residual * residual;
    q[i] = static_cast<int8_t>(v);
  }
  return error;
}

}  // namespace makar
