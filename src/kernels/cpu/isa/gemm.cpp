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

}  // namespace

void fill_gemm(Table& table) {
  table.mr = kMr;
  table.nr = kNr;
  table.tile = tile;
}

}  // namespace makar::kernels::MAKAR_ISA
