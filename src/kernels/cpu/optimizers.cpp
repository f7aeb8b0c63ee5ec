#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/ranges.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu_device.h"

namespace makar {

using namespace kernels;

namespace {

constexpr int64_t kUpdateGrain = 16384;

// Calls body(i, gradient) for each element; the gradient is scaled and includes L2 decay, as in PyTorch's
// older optimisers.
template <class F>
void each_gradient(ThreadPool& pool, const Update& u, F&& body) {
  pool.for_ranges(u.n, kUpdateGrain, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) body(i, u.l2 != 0.0f ? u.g[i] * u.factor + u.l2 * u.p[i] : u.g[i] * u.factor);
  });
}

// v = mu v + g; p -= lr v, or with Nesterov's look-ahead p -= lr (g + mu v). The first v is g.
template <bool nesterov>
void momentum_step(ThreadPool& pool, const Update& u) {
  float *p = u.p, *v = u.state;
  const float lr = u.lr, mu = u.momentum;
  const bool first = u.first;
  each_gradient(pool, u, [=](int64_t i, float g) {
    v[i] = first ? g : mu * v[i] + g;
    p[i] -= lr * (nesterov ? g + mu * v[i] : v[i]);
  });
}

}  // namespace

void CpuDevice::update(const Update& u) {
  float *p = u.p, *s = u.state;
  const float lr = u.lr, eps = u.eps;
  switch (u.kind) {
    case UpdateKind::kSgd:
      return each_gradient(*pool_, u, [=](int64_t i, float g) { p[i] -= lr * g; });
    case UpdateKind::kMomentum:
      return momentum_step<false>(*pool_, u);
    case UpdateKind::kNesterov:
      return momentum_step<true>(*pool_, u);
    case UpdateKind::kAdagrad:
      return each_gradient(*pool_, u, [=](int64_t i, float g) {
        s[i] += g * g;
        p[i] -= lr * g / (std::sqrt(s[i]) + eps);
      });
    case UpdateKind::kRmsprop:
      return each_gradient(*pool_, u, [=, alpha = u.beta2, rest = u.rest2](int64_t i, float g) {
        s[i] = alpha * s[i] + rest * g * g;
        p[i] -= lr * g / (std::sqrt(s[i]) + eps);
      });
    case UpdateKind::kLion:  // Chen et al., 2023: the sign of a blend of momentum and gradient
      return each_gradient(
          *pool_, u,
          [=, b1 = u.beta1, r1 = u.rest1, b2 = u.beta2, r2 = u.rest2, decay = u.decay](int64_t i, float g) {
            const float blend = b1 * s[i] + r1 * g;
            p[i] = p[i] * decay - (blend > 0.0f ? lr : (blend < 0.0f ? -lr : 0.0f));
            s[i] = b2 * s[i] + r2 * g;
          });
  }
}

void CpuDevice::adamw(const AdamWList& all) {
  for (const AdamW& a : std::span(all.items, static_cast<size_t>(all.count)))
    pool_->for_ranges(a.n, kUpdateGrain, [&](int64_t i, int64_t end) {
      cpu().adamw(a.p + i, a.g + i, a.m + i, a.v + i, end - i, a.step);
    });
}

namespace {

constexpr double kMinRms = 1e-3;  // Adafactor: lower bound for the RMS of a parameter

double sum_of_squares(const float* x, int64_t n) {
  std::array<double, kSquareLanes> lanes{};
  for (int64_t i = 0; i < n; i += kSquareLanes) {
    const int64_t count = std::min(kSquareLanes, n - i);
    for (int64_t j = 0; j < count; ++j)
      lanes[static_cast<size_t>(j)] += static_cast<double>(x[i + j]) * x[i + j];
  }
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

float lerp(float from, double to, double weight) { return static_cast<float>(from + weight * (to - from)); }

// The variance estimates of one matrix [rows, cols] from its gradient.
void matrix_variance(const float* g, float factor, int64_t rows, int64_t cols, double weight, double eps,
                     float* row_var, float* col_var, float* estimate) {
  std::vector<double> columns(static_cast<size_t>(cols), 0.0);
  double row_mean = 0;
  for (int64_t i = 0; i < rows; ++i) {
    double row = 0;
    for (int64_t j = 0; j < cols; ++j) {
      const double x = g[i * cols + j] * factor;
      row += x * x;
      columns[static_cast<size_t>(j)] += x * x;
    }
    row_var[i] = lerp(row_var[i], row / static_cast<double>(cols), weight);
    row_mean += row_var[i] / static_cast<double>(rows);
  }
  row_mean = std::max(row_mean, eps);
  for (int64_t j = 0; j < cols; ++j)
    col_var[j] = lerp(col_var[j], columns[static_cast<size_t>(j)] / static_cast<double>(rows), weight);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      estimate[i * cols + j] = static_cast<float>(row_var[i] * static_cast<double>(col_var[j]) / row_mean);
}

}  // namespace

void CpuDevice::adafactor(const Adafactor& a) {
  const double eps = std::numeric_limits<float>::epsilon(), count = static_cast<double>(a.n);
  const double alpha = std::max(kMinRms, std::sqrt(sum_of_squares(a.p, a.n) / count)) * a.rho;
  float* e = a.scratch;
  if (!a.col_var) {
    for (int64_t i = 0; i < a.n; ++i) {
      const double x = a.g[i] * a.factor;
      e[i] = a.row_var[i] = lerp(a.row_var[i], x * x, a.weight);
    }
  } else {
    const int64_t size = a.rows * a.cols;
    for (int64_t b = 0; b * size < a.n; ++b)
      matrix_variance(a.g + b * size, a.factor, a.rows, a.cols, a.weight, eps, a.row_var + b * a.rows,
                      a.col_var + b * a.cols, e + b * size);
  }
  const float min = static_cast<float>(eps * eps);
  pool_->for_ranges(a.n, kUpdateGrain, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) e[i] = a.g[i] * a.factor / std::sqrt(std::max(e[i], min));
  });
  const float step = static_cast<float>(alpha / std::max(1.0, std::sqrt(sum_of_squares(e, a.n) / count)));
  pool_->for_ranges(a.n, kUpdateGrain, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) a.p[i] = a.p[i] * a.decay - step * e[i];
  });
}

namespace {

// Index of element i of a [rows, cols] matrix in its transpose, or in itself.
int64_t transposed_index(int64_t i, int64_t rows, int64_t cols, bool transposed) {
  return transposed ? i % cols * rows + i / cols : i;
}

}  // namespace

void CpuDevice::muon_momentum(const MuonMomentum& a) {
  pool_->for_ranges(a.rows * a.cols, kUpdateGrain, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const float grad = a.g[i] * a.factor;
      a.v[i] += a.rest * (grad - a.v[i]);
      a.x[transposed_index(i, a.rows, a.cols, a.transposed)] = grad + a.mu * (a.v[i] - grad);  // Nesterov
    }
  });
}

void CpuDevice::normalize(const Normalize& a) {
  for (float* x = a.x; x < a.x + a.count * a.n; x += a.n) {
    const auto inverse = static_cast<float>(1.0 / std::max(std::sqrt(sum_of_squares(x, a.n)), a.min));
    for (int64_t i = 0; i < a.n; ++i) x[i] *= inverse;
  }
}

void CpuDevice::muon_apply(const MuonApply& a) {
  pool_->for_ranges(a.rows * a.cols, kUpdateGrain, [&](int64_t i, int64_t end) {
    for (; i < end; ++i)
      a.p[i] = a.p[i] * a.decay - a.step * a.x[transposed_index(i, a.rows, a.cols, a.transposed)];
  });
}

}  // namespace makar
