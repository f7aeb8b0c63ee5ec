// Softmax rows and cross-entropy rows.
#include "kernels/cpu/isa/math.h"
#include "kernels/cpu/isa/sections.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

void softmax(const float* x, float* y, int64_t n) {
  const float m = max_of(x, n);
  for (int64_t i = 0; i < n; ++i) y[i] = exp_down(x[i] - m);
  const float inv = 1.0f / sum_of(n, [y](int64_t i) { return y[i]; });
  for (int64_t i = 0; i < n; ++i) y[i] *= inv;
}

float log_sum_exp(const float* x, int64_t n) {
  const float m = max_of(x, n);
  return m + log_of(sum_of(n, [x, m](int64_t i) { return exp_down(x[i] - m); }));
}

void log_softmax(const float* x, float* y, int64_t n) {
  const float lse = log_sum_exp(x, n);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] - lse;
}

// dx (+)= y * (dy - dot(dy, y))
void softmax_backward(const float* y, const float* dy, float* dx, int64_t n, bool accumulate) {
  const float d = dot_of(
      n, [y](int64_t i) { return y[i]; }, [dy](int64_t i) { return dy[i]; });
  if (accumulate)
    for (int64_t i = 0; i < n; ++i) dx[i] = madd(y[i], dy[i] - d, dx[i]);
  else
    for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - d);
}

// dx (+)= dy - exp(y) * sum(dy)
void log_softmax_backward(const float* y, const float* dy, float* dx, int64_t n, bool accumulate) {
  const float s = sum_of(n, [dy](int64_t i) { return dy[i]; });
  if (accumulate)
    for (int64_t i = 0; i < n; ++i) dx[i] += madd(-s, exp_of(y[i]), dy[i]);
  else
    for (int64_t i = 0; i < n; ++i) dx[i] = madd(-s, exp_of(y[i]), dy[i]);
}

// The loss of one row: (1 - s) * (lse - x[target]) + s * (lse - mean(x)). If dx is given, dx = weight times
// its gradient (dx may be x).
float cross_entropy(const float* x, float* dx, int64_t n, int64_t target, float smoothing, float weight) {
  const float lse = log_sum_exp(x, n);
  const float at_target = x[target];
  float loss = (1.0f - smoothing) * (lse - at_target);
  if (smoothing > 0.0f)
    loss += smoothing * (lse - sum_of(n, [x](int64_t i) { return x[i]; }) / static_cast<float>(n));
  if (dx) {
    const float base = smoothing / static_cast<float>(n) * weight;
    const auto gradient = [=](float logit) { return madd(weight, exp_down(logit - lse), -base); };
    if (dx == x)  // a loop of its own: the compiler vectorises it only with a single pointer
      for (int64_t i = 0; i < n; ++i) dx[i] = gradient(dx[i]);
    else
      for (int64_t i = 0; i < n; ++i) dx[i] = gradient(x[i]);
    dx[target] -= (1.0f - smoothing) * weight;
  }
  return loss;
}

}  // namespace

void fill_softmax(Table& t) {
  t.softmax = softmax;
  t.log_sum_exp = log_sum_exp;
  t.log_softmax = log_softmax;
  t.softmax_backward = softmax_backward;
  t.log_softmax_backward = log_softmax_backward;
  t.cross_entropy = cross_entropy;
}

}  // namespace makar::kernels::MAKAR_ISA
