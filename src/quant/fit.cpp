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
  void add(float weight, float value, float quant) {
    w += weight, x += weight * value, xx += weight * value * value;
    q += weight * quant, qq += weight * quant * quant, xq += weight * value * quant;
  }
  double error(double scale, double offset) const {
    return xx + scale * scale * qq + offset * offset * w - 2 * scale * xq - 2 * offset * x +
           2 * scale * offset * q;
  }
};

Sums sums_at(const Run& run, float inverse, float offset, int lo, int hi) {
  Sums s;
  for (int i = 0; i < run.n; ++i)
    s.add(weight(run, i), run.x[i],
          nearest((run.x[i] - offset) * inverse, static_cast<float>(lo), static_cast<float>(hi)));
  return s;
}

}  // namespace

SymmetricFit fit_symmetric(const Run& run, int lo, int hi) {
  float most = 0;  // the value of largest magnitude
  for (int i = 0; i < run.n; ++i)
    if (std::abs(run.x[i]) > std::abs(most)) most = run.x[i];
  SymmetricFit best;
  if (most == 0) return best;
  best.error = INFINITY;
  // The largest value lands near either end of the range, or a little beyond it.
  const float low = static_cast<float>(-lo), high = static_cast<float>(hi);
  for (const float end : {-low, high})
    for (int step = -9; step <= 9; ++step) {
      const float inverse = end * (1.0f + static_cast<float>(step) * 0.1f / high) / most;
      const Sums s = sums_at(run, inverse, 0, lo, hi);
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
  for (int step = -10; step <= 10; ++step) {
    const float inverse = (static_cast<float>(hi) + 0.1f * static_cast<float>(step)) / (high - low);
    const Sums s = sums_at(run, inverse, low, 0, hi);
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
