#include <algorithm>
#include <cmath>

#include "kernels/cpu/isa/parts.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

constexpr int kMr = 8, kNr = 12;

void tile(int64_t k, const float* a, const float* b, float* c, int64_t ldc, int rows, int cols, bool accumulate) {
  float acc[kMr][kNr];
  for (int i = 0; i < kMr; ++i)
    for (int j = 0; j < kNr; ++j) acc[i][j] = accumulate && i < rows && j < cols ? c[i * ldc + j] : 0.0f;
  for (int64_t p = 0; p < k; ++p)
    for (int i = 0; i < kMr; ++i)
      for (int j = 0; j < kNr; ++j) acc[i][j] = std::fma(a[p * kMr + i], b[p * kNr + j], acc[i][j]);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) c[i * ldc + j] = acc[i][j];
}

void pack(const float* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k, int width, float* out) {
  for (int64_t r0 = 0; r0 < rows; r0 += width, out += k * width)
    for (int64_t p = 0; p < k; ++p)
      for (int i = 0; i < width; ++i)
        out[p * width + i] = r0 + i < rows ? x[(r0 + i) * row_stride + p * k_stride] : 0.0f;
}

void pack_a(const float* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k, float* out) {
  pack(x, row_stride, k_stride, rows, k, kMr, out);
}
void pack_b(const float* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k, float* out) {
  pack(x, row_stride, k_stride, rows, k, kNr, out);
}

void product(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c, int64_t ldc, bool accumulate) {
  for (int64_t j = 0; j < n; j += kNr)
    for (int64_t i = 0; i < m; i += kMr)
      tile(k, a + i * k, b + j * k, c + i * ldc + j, ldc, static_cast<int>(std::min<int64_t>(kMr, m - i)),
           static_cast<int>(std::min<int64_t>(kNr, n - j)), accumulate);
}

}  // namespace

void fill_gemm(Table& table) {
  table.mr = kMr;
  table.nr = kNr;
  table.tile = tile;
  table.pack_a = pack_a;
  table.pack_b = pack_b;
  table.product = product;
}

}  // namespace makar::kernels::MAKAR_ISA
