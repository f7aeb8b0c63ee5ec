#include "quant/fit.h"

#include <algorithm>
#include <cmath>

namespace makar {
namespace {

float weight(const Run& run, int i) { return run.w ? run.w[i] : 1.0f; }

float nearest(float v, float lo, float hi) { return std::min(hi, std::max(lo, std::nearbyint(v))); }

// Sums that give the best scale and offset for fixed integers.
struct Sums {
  double w = 0, x = 0, xx = 0, q = 0, qq = 0, xq = 0;
  double error(double scale, double offset) const {
    return xx + scale * scale * qq + offset * offset * w - 2 * scale * xq - 2 * offset * x +
           2 * scale * offset * q;
  }
};

// Four lanes, so that the compiler may use vectors without changing the order of additions.
constexpr int kLanes = 4;
struct Lanes {
  float v[kLanes] = {};
  double sum() const { return (static_cast<double>(v[0]) + v[1]) + (static_cast<double>(v[2]) + v[3]); }
};

// What does not depend on the integers: the same for every start.
struct Known {
  Lanes w, x, xx;
};
Known known_of(const Run& run) {
  Known k;
  for (int i = 0; i < run.n; ++i) {
    const float w = weight(run, i), x = run.x[i];
    k.w.v[i % kLanes] += w, k.x.v[i % kLanes] += w * x, k.xx.v[i % kLanes] += w * x * x;
  }
  return k;
}

template <bool kWeighted>
Sums sums_of(const Run& run, const Known& known, float inverse, float offset, float lo, float hi) {
  Lanes q, qq, xq;
  for (int i = 0; i + kLanes <= run.n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) {
      const float x = run.x[i + l], v = nearest((x - offset) * inverse, lo, hi);
      const float wv = kWeighted ? run.w[i + l] * v : v;
      q.v[l] += wv, qq.v[l] += wv * v, xq.v[l] += wv * x;
    }
  return {known.w.sum(), known.x.sum(), known.xx.sum(), q.sum(), qq.sum(), xq.sum()};
}

Sums sums_at(const Run& run, const Known& known, float inverse, float offset, int lo, int hi) {
  const auto low = static_cast<float>(lo), high = static_cast<float>(hi);
  return run.w ? sums_of<true>(run, known, inverse, offset, low, high)
               : sums_of<false>(run, known, inverse, offset, low, high);
}

}  // namespace

SymmetricFit fit_symmetric(const Run& run, int lo, int hi) {
  float most = 0;  // the value of largest magnitude
  for (int i = 0; i < run.n; ++i)
    if (std::abs(run.x[i]) > std::abs(most)) most = run.x[i];
  SymmetricFit best;
  if (most == 0) return best;
  best.error = INFINITY;
  const Known known = known_of(run);
  // The largest value lands near either end of the range, or a little beyond it.
  const float low = static_cast<float>(-lo), high = static_cast<float>(hi);
  for (const float end : {-low, high})
    for (int step = -9; step <= 9; ++step) {
      const float inverse = end * (1.0f + static_cast<float>(step) * 0.1f / high) / most;
      const Sums s = sums_at(run, known, inverse, 0, lo, hi);
      if (s.qq <= 0) continue;
      const double scale = s.xq / s.qq, error = s.error(scale, 0);
      if (error < best.error) best = {static_cast<float>(scale), error};
    }
  if (!std::isfinite(best.error)) best = {};
  return best;
}

AffineFit fit_affine(const Run& run, int hi, bool offset_not_positive) {
  float low = run.x[0], high = run.x[0];
  for (int i = 1; i < run.n; ++i) low = std::min(low, run.x[i]), high = std::max(high, run.x[i]);
  if (offset_not_positive) low = std::min(low, 0.0f);
  AffineFit best;
  if (high <= low) {  // all equal, or none above zero
    best.offset = low;
    for (int i = 0; i < run.n; ++i) best.error += weight(run, i) * (run.x[i] - low) * (run.x[i] - low);
    return best;
  }
  best.error = INFINITY;
  const Known known = known_of(run);
  for (int step = -10; step <= 10; ++step) {
    const float inverse = (static_cast<float>(hi) + 0.1f * static_cast<float>(step)) / (high - low);
    const Sums s = sums_at(run, known, inverse, low, 0, hi);
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

double round_to(const Run& run, float scale, float offset, int lo, int hi, int8_t* q) {
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  double error = 0;
  for (int i = 0; i < run.n; ++i) {
    const float v = nearest((run.x[i] - offset) * inverse, static_cast<float>(lo), static_cast<float>(hi));
    const double left = static_cast<double>(scale * v + offset) - run.x[i];
    error += weight(run, i) * left * left;
    q[i] = static_cast<int8_t>(v);
  }
  return error;
}

}  // namespace makar
