#include "quant/gptq.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "quant/encode.h"
#include "quant/grid.h"

namespace makar {
namespace {

double dot(const double* a, const double* b, int64_t n) {
  double lane[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int l = 0; l < 4; ++l) lane[l] += a[i + l] * b[i + l];
  for (; i < n; ++i) lane[0] += a[i] * b[i];
  return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

// Rounds one row; errors are passed to the columns on the right.
void round_row(DType type, int64_t n, const float* w, const float* importance, const Tensor& feedback,
               float* target, std::byte* out) {
  const int64_t block = layout_of(type).elements;
  int8_t q[256];
  for (int64_t at = 0; at < n; at += block, out += layout_of(type).bytes) {
    encode_row(type, target + at, block, importance + at, out);
    const Grid grid = read_grid(type, out);
    for (int i = 0; i < grid.n; ++i) {
      const int64_t k = at + i;
      q[i] = grid.nearest(i, target[k]);
      const float error = w[k] - grid.value(i, q[i]);
      const float* row = feedback.f32() + k * n;
      for (int64_t j = k + 1; j < n; ++j) target[j] += error * row[j];
    }
    pack_integers(type, q, out);
  }
}

}  // namespace

Tensor feedback_of(ThreadPool& pool, const Tensor& h, std::vector<double>* pivots) {
  const int64_t n = h.dim(0);
  std::vector<double> m(static_cast<size_t>(n * n));
  double mean = 0;
  for (int64_t i = 0; i < n; ++i) mean += h.f32()[i * n + i] / static_cast<double>(n);
  const double damp = 0.01 * mean + 1e-12;
  for (int64_t k = n - 1; k >= 0; --k) {
    const double* mk = m.data() + k * n;
    const int64_t right = n - 1 - k;
    const double square = h.f32()[k * n + k] + damp - dot(mk + k + 1, mk + k + 1, right);
    const double root = std::sqrt(std::max(square, damp));
    m[static_cast<size_t>(k * n + k)] = root;
    pool.for_ranges(k, 32, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double* mi = m.data() + i * n;
        mi[k] = (h.f32()[i * n + k] - dot(mi + k + 1, mk + k + 1, right)) / root;
      }
    });
  }
  if (pivots) {
    pivots->clear();
    for (int64_t k = 0; k < n; ++k) pivots->push_back(m[static_cast<size_t>(k * n + k)]);
  }
  Tensor out = Tensor::zeros({n, n});
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = i + 1; k < n; ++k)
      out.f32()[i * n + k] =
          static_cast<float>(m[static_cast<size_t>(i * n + k)] / m[static_cast<size_t>(k * n + k)]);
  return out;
}

Tensor encode_gptq(ThreadPool& pool, const Tensor& w, DType type, const Tensor& h) {
  const int64_t n = w.dim(-1), rows = w.count() / n;
  check(h.dim(0) == n && h.dim(1) == n, "encode_gptq: x^T x must have the width of w");
  const Tensor feedback = feedback_of(pool, h);
  std::vector<float> importance;
  for (int64_t i = 0; i < n; ++i) importance.push_back(h.f32()[i * n + i] + 1e-12f);
  Tensor out = Tensor::empty(w.shape(), type);
  const size_t row_bytes = bytes_of(type, n);
  pool.for_ranges(rows, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> target(static_cast<size_t>(n));
    for (int64_t r = begin; r < end; ++r) {
      const float* row = w.f32() + r * n;
      std::copy_n(row, n, target.data());
      round_row(type, n, row, importance.data(), feedback, target.data(),
                out.raw() + static_cast<size_t>(r) * row_bytes);
    }
  });
  return out;
}

}  // namespace makar
