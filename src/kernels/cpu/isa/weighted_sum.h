// Products of few rows of attention weights and values[k][dim] in place: out[i] += sum over k in sequence of
// weights[i][k] values[k]. Values are read in memory order, once for up to four rows; with one row, 64
// columns at a time.
#pragma once
#include "kernels/cpu/isa/math.h"
#include "kernels/cpu/isa/quad.h"

namespace makar::kernels::MAKAR_ISA {

template <class T>
struct WeightedSum {
  const float* weights;
  int64_t weights_stride, keys;
  const T* values;
  int64_t values_stride;
  float* out;
  int64_t out_stride;
};

// M rows by 4 W columns, starting at `at`.
template <int M, int W, class T>
inline void weighted_sum_columns(const WeightedSum<T>& w, int64_t at) {
  Quad acc[M][W];
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < W; ++j) acc[i][j] = quad_load(w.out + i * w.out_stride + at + 4 * j);
  const T* v = w.values + at;
  for (int64_t k = 0; k < w.keys; ++k, v += w.values_stride) {
    Quad row[W];
    for (int j = 0; j < W; ++j) row[j] = quad_load(v + 4 * j);
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < W; ++j)
        acc[i][j] = quad_fma(acc[i][j], row[j], w.weights[i * w.weights_stride + k]);
  }
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < W; ++j) quad_store(w.out + i * w.out_stride + at + 4 * j, acc[i][j]);
}

template <int M, class T>
inline void weighted_sum_rows(const WeightedSum<T>& w, int64_t dim) {
  constexpr int kMaxQuads = M == 1 ? 16 : M == 2 ? 8 : 4;  // as many as fit the registers
  int64_t at = 0;
  for (; at + 4 * kMaxQuads <= dim; at += 4 * kMaxQuads) weighted_sum_columns<M, kMaxQuads>(w, at);
  for (; at + 4 <= dim; at += 4) weighted_sum_columns<M, 1>(w, at);
  for (; at < dim; ++at)
    for (int i = 0; i < M; ++i) {
      float& out = w.out[i * w.out_stride + at];
      for (int64_t k = 0; k < w.keys; ++k)
        out = madd(w.weights[i * w.weights_stride + k], quad_one(w.values + k * w.values_stride + at), out);
    }
}

// The remaining rows, M at a time.
template <int M, class T>
inline void weighted_sum_some(int64_t& rows, WeightedSum<T>& w, int64_t dim) {
  while (rows >= M) {
    weighted_sum_rows<M>(w, dim);
    w.weights += M * w.weights_stride, w.out += M * w.out_stride, rows -= M;
  }
}

template <class T>
inline void weighted_sum(int64_t rows, WeightedSum<T> w, int64_t dim) {
  weighted_sum_some<4>(rows, w, dim);
  weighted_sum_some<2>(rows, w, dim);
  weighted_sum_some<1>(rows, w, dim);
}

}  // namespace makar::kernels::MAKAR_ISA
