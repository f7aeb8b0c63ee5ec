// Tiles of the matrix product in plain C++: the compiler may vectorise over columns, never over k.
#pragma once
#include <bit>
#include <cmath>

#include "kernels/cpu/isa/gemm_types.h"

namespace makar::kernels::MAKAR_ISA {

constexpr int kMr = 4, kNr = 8, kRowsMax = 4, kKc = 512;

inline float widen(float x) { return x; }
inline float widen(BF16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }
inline float widen(F16 x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16, magnitude = x.bits & 0x7fffu;
  // Shift exponent and fraction into place; multiplying by 2^112 corrects the bias, for subnormals too.
  const float small = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t bits =
      magnitude >= 0x7c00u ? 0x7f800000u | ((magnitude & 0x3ffu) << 13) : std::bit_cast<uint32_t>(small);
  return std::bit_cast<float>(sign | bits);
}

// R rows of A, element (i, p) at a[i * row + p * step], by one panel.
template <int R, class T>
inline void any_tile(int64_t k, const float* a, int64_t row, int64_t step, const T* b, float* c, int64_t ldc,
                     bool accumulate) {
  float acc[R][kNr];
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < kNr; ++j) acc[i][j] = accumulate ? c[i * ldc + j] : 0.0f;
  for (int64_t p = 0; p < k; ++p) {
    float v[kNr];
    for (int j = 0; j < kNr; ++j) v[j] = widen(b[p * kNr + j]);
    for (int i = 0; i < R; ++i) {
      const float x = a[i * row + p * step];
      for (int j = 0; j < kNr; ++j) acc[i][j] = std::fma(x, v[j], acc[i][j]);
    }
  }
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < kNr; ++j) c[i * ldc + j] = acc[i][j];
}

template <int R, class T>
inline void full_tile(int64_t k, const float* a, const T* b, float* c, int64_t ldc, bool accumulate,
                      TilePart) {
  any_tile<R>(k, a, 1, kMr, b, c, ldc, accumulate);
}

template <int M, int P, class T>
inline void full_rows(int64_t k, const float* a, int64_t lda, const T* b, int64_t panel, float* c,
                      int64_t ldc, bool accumulate) {
  for (int q = 0; q < P; ++q) any_tile<M>(k, a, lda, 1, b + q * panel, c + q * kNr, ldc, accumulate);
}

template <int M, class T>
constexpr int panels_at_once() {
  return 1;
}

}  // namespace makar::kernels::MAKAR_ISA
