// Softmax and losses.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/ranges.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/tasks.h"
#include "kernels/cpu_device.h"

namespace makar {

using namespace kernels;

void CpuDevice::softmax(const Softmax& a) {
  const auto forward = a.log ? cpu().log_softmax : cpu().softmax;
  each_rows(*pool_, a.rows, a.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) forward(a.x + r * a.cols, a.y + r * a.cols, a.cols);
  });
}

void CpuDevice::softmax_backward(const SoftmaxBackward& a) {
  const auto backward = a.log ? cpu().log_softmax_backward : cpu().softmax_backward;
  each_rows(*pool_, a.rows, a.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r)
      backward(a.y + r * a.cols, a.dy + r * a.cols, a.dx + r * a.cols, a.cols, a.accumulate);
  });
}

namespace {

// With a soft cap, caps the row in place first and applies the chain rule to the gradient.
float row_loss(const CrossEntropy& a, int64_t r) {
  const Table& t = cpu();
  const int64_t n = a.cols, target = a.targets[r];
  float* x = a.x + r * n;
  float* dx = a.dx ? a.dx + r * n : nullptr;
  if (a.soft_cap <= 0.0f) return t.cross_entropy(x, dx, n, target, a.smoothing, a.weight);
  t.scale(x, 1.0f / a.soft_cap, x, n, false);
  t.activation[static_cast<int>(Activation::kTanh)].forward(x, x, n);
  const std::vector<float> tanh(x, x + n);
  t.scale(x, a.soft_cap, x, n, false);
  const float loss = t.cross_entropy(x, dx, n, target, a.smoothing, a.weight);
  if (dx)
    for (int64_t i = 0; i < n; ++i)
      dx[i] *= 1.0f - tanh[static_cast<size_t>(i)] * tanh[static_cast<size_t>(i)];
  return loss;
}

}  // namespace

void CpuDevice::cross_entropy(const CrossEntropy& a) {
  each_rows(*pool_, a.rows, a.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      const bool ignored = a.targets[r] == kIgnoredTarget;
      a.losses[r] = ignored ? 0.0f : row_loss(a, r);
      if (ignored && a.dx) std::fill_n(a.dx + r * a.cols, a.cols, 0.0f);
    }
  });
}

void CpuDevice::total_loss(const TotalLoss& a) {
  double total = 0;
  for (int64_t i = 0; i < a.n; ++i) total += a.losses[i];
  a.y[0] = static_cast<float>(total / a.divisor);
}

void CpuDevice::kl_target(const KlTarget& a) {
  const int64_t chunks = ceil_div(a.n, kSumChunk);
  std::vector<double> parts(static_cast<size_t>(chunks));
  pool_->for_ranges(chunks, 4, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const int64_t from = c * kSumChunk, n = std::min(kSumChunk, a.n - from);
      const float* log_p = a.log_p + from;
      float* p = a.p + from;
      cpu().activation[static_cast<int>(Activation::kExp)].forward(log_p, p, n);
      double lanes[kKlLanes] = {};
      for (int64_t i = 0; i < n; ++i)
        if (p[i] > 0.0f) lanes[i % kKlLanes] += static_cast<double>(p[i]) * log_p[i];
      for (const double lane : lanes) parts[static_cast<size_t>(c)] += lane;
    }
  });
  double entropy = 0;
  for (const double part : parts) entropy += part;
  a.y[0] = static_cast<float>(entropy) / a.rows;
}

}  // namespace makar
