// Adafactor (Shazeer & Stern, 2018) as torch.optim.Adafactor computes it: the second moment of a matrix is
// the outer product of its row and column means, steps are relative to the size of the parameter.
#include <algorithm>
#include <cmath>
#include <limits>

#include "optim/rules.h"

namespace makar {
namespace {

constexpr double kDecayPower = -0.8;  // the second moment's rate: 1 - step^power
constexpr double kLeastRms = 1e-3;    // a parameter counts as at least this large

// In double, in order: one sequence for any number of threads.
template <class F>
double sum_over(int64_t n, F&& term) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += term(i);
  return total;
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

std::vector<Slot> adafactor_slots(const Shape& shape) {
  if (shape.rank() < 2) return {{"variance", shape}};
  Shape row = shape, col = shape;
  row[-1] = 1, col[-2] = 1;
  return {{"row_var", row}, {"col_var", col}};
}

void adafactor(const Update& u) {
  const double step = static_cast<double>(u.step), eps1 = std::numeric_limits<float>::epsilon();
  const double weight = std::pow(step, kDecayPower), rho = std::min(u.lr, 1.0 / std::sqrt(step));
  const int64_t n = u.p.count();
  float* p = u.p.f32();
  const float* g = u.g.f32();
  const float factor = static_cast<float>(u.factor);
  const double rms = std::sqrt(sum_over(n, [p](int64_t i) { return static_cast<double>(p[i]) * p[i]; }) /
                               static_cast<double>(n));
  const double alpha = std::max(kLeastRms, rms) * rho;
  Tensor estimate = Tensor::empty(u.p.shape());
  float* e = estimate.f32();
  if (u.p.rank() < 2) {
    float* v = u.slots[0].f32();
    for (int64_t i = 0; i < n; ++i) {
      const double x = g[i] * factor;
      e[i] = v[i] = lerp(v[i], x * x, weight);
    }
  } else {
    const int64_t rows = u.p.dim(-2), cols = u.p.dim(-1), size = rows * cols;
    for (int64_t b = 0; b * size < n; ++b)
      matrix_variance(g + b * size, factor, rows, cols, weight, eps1, u.slots[0].f32() + b * rows,
                      u.slots[1].f32() + b * cols, e + b * size);
  }
  const float least = static_cast<float>(eps1 * eps1);
  u.pool.for_ranges(n, 16384, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) e[i] = g[i] * factor / std::sqrt(std::max(e[i], least));
  });
  const double size = std::sqrt(sum_over(n, [e](int64_t i) { return static_cast<double>(e[i]) * e[i]; }) /
                                static_cast<double>(n));
  const float by = static_cast<float>(alpha / std::max(1.0, size)),
              decay = static_cast<float>(1.0 - u.lr * u.weight_decay);
  u.pool.for_ranges(n, 16384, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) p[i] = p[i] * decay - by * e[i];
  });
}

}  // namespace makar
