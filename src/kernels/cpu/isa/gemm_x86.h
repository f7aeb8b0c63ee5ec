// AVX2 and AVX-512 tiles of the matrix product: A is broadcast from memory, columns are vector lanes.
#pragma once
#include <immintrin.h>

#include "kernels/cpu/isa/gemm_types.h"

namespace makar::kernels::MAKAR_ISA {

#if defined(MAKAR_ISA_avx512)
using Vec = __m512;
constexpr int kVecLanes = 16, kMr = 14, kRowsMax = 8, kKc = 256;  // 28 accumulators, 2 registers of B
inline Vec zero() { return _mm512_setzero_ps(); }
inline Vec load(const float* x) { return _mm512_loadu_ps(x); }
inline Vec load(const F16* x) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
inline Vec load(const BF16* x) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline void store(float* x, Vec v) { _mm512_storeu_ps(x, v); }
inline Vec broadcast(const float* x) { return _mm512_set1_ps(*x); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
#else
using Vec = __m256;
constexpr int kVecLanes = 8, kMr = 6, kRowsMax = 6, kKc = 384;  // 12 accumulators, 2 registers of B, 1 of A
inline Vec zero() { return _mm256_setzero_ps(); }
inline Vec load(const float* x) { return _mm256_loadu_ps(x); }
inline Vec load(const F16* x) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}
inline Vec load(const BF16* x) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline void store(float* x, Vec v) { _mm256_storeu_ps(x, v); }
inline Vec broadcast(const float* x) { return _mm256_broadcast_ss(x); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
#endif
constexpr int kVecs = 2, kNr = kVecs * kVecLanes;

// R rows of A, element (i, p) at a[i * row + p * step], by P panels at once.
template <int R, int P, class T>
inline void any_tile(int64_t k, const float* a, int64_t row, int64_t step, const T* b, int64_t panel,
                     float* c, int64_t ldc, bool accumulate) {
  Vec acc[P][R][kVecs];
#pragma clang loop unroll(full)
  for (int q = 0; q < P; ++q)
#pragma clang loop unroll(full)
    for (int i = 0; i < R; ++i)
#pragma clang loop unroll(full)
      for (int j = 0; j < kVecs; ++j)
        acc[q][i][j] = accumulate ? load(c + i * ldc + q * kNr + j * kVecLanes) : zero();
  for (int64_t p = 0; p < k; ++p, a += step, b += kNr) {
#pragma clang loop unroll(full)
    for (int q = 0; q < P; ++q) {
      Vec v[kVecs];
#pragma clang loop unroll(full)
      for (int j = 0; j < kVecs; ++j) v[j] = load(b + q * panel + j * kVecLanes);
#pragma clang loop unroll(full)
      for (int i = 0; i < R; ++i) {
        const Vec x = broadcast(a + i * row);
#pragma clang loop unroll(full)
        for (int j = 0; j < kVecs; ++j) acc[q][i][j] = fma(x, v[j], acc[q][i][j]);
      }
    }
  }
#pragma clang loop unroll(full)
  for (int q = 0; q < P; ++q)
#pragma clang loop unroll(full)
    for (int i = 0; i < R; ++i)
#pragma clang loop unroll(full)
      for (int j = 0; j < kVecs; ++j) store(c + i * ldc + q * kNr + j * kVecLanes, acc[q][i][j]);
}

template <int R, class T>
inline void full_tile(int64_t k, const float* a, const T* b, float* c, int64_t ldc, bool accumulate) {
  any_tile<R, 1>(k, a, 1, kMr, b, 0, c, ldc, accumulate);
}

template <int M, int P, class T>
inline void full_rows(int64_t k, const float* a, int64_t lda, const T* b, int64_t panel, float* c,
                      int64_t ldc, bool accumulate) {
  any_tile<M, P>(k, a, lda, 1, b, panel, c, ldc, accumulate);
}

// Panels processed together by the rows kernel: 8 to 20 accumulators, as many as clang keeps in registers.
template <int M, class T>
constexpr int panels_at_once() {
  if (kVecLanes == 16) return M <= 2 ? 4 : M == 3 ? 3 : M <= 5 ? 2 : 1;
  return M == 1 ? 4 : M == 2 ? 2 : 1;
}

}  // namespace makar::kernels::MAKAR_ISA
