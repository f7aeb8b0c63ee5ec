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

// One k of a panel, and the sums of a row of C: columns in sequence.
template <class T>
struct PanelRow {
  static void load(const T* b, Vec (&v)[kVecs]) {
    for (int j = 0; j < kVecs; ++j) v[j] = MAKAR_ISA::load(b + j * kVecLanes);
  }
  static void load_sums(const float* c, Vec (&v)[kVecs]) {
    for (int j = 0; j < kVecs; ++j) v[j] = MAKAR_ISA::load(c + j * kVecLanes);
  }
  static void store_sums(float* c, const Vec (&v)[kVecs]) {
    for (int j = 0; j < kVecs; ++j) store(c + j * kVecLanes, v[j]);
  }
};
#if defined(MAKAR_ISA_avx512)
// Even columns, then odd ones: one instruction instead of two widens 16 values of bf16.
template <>
struct PanelRow<BF16> {
  static void load(const BF16* b, Vec (&v)[kVecs]) {
    const __m512i bits = _mm512_loadu_si512(b);
    v[0] = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
    v[1] = _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(-0x10000)));
  }
  static void load_sums(const float* c, Vec (&v)[kVecs]) {
    const Vec low = MAKAR_ISA::load(c), high = MAKAR_ISA::load(c + kVecLanes);
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    v[0] = _mm512_permutex2var_ps(low, even, high);
    v[1] = _mm512_permutex2var_ps(low, _mm512_or_si512(even, _mm512_set1_epi32(1)), high);
  }
  static void store_sums(float* c, const Vec (&v)[kVecs]) {
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    store(c, _mm512_permutex2var_ps(v[0], low, v[1]));
    store(c + kVecLanes, _mm512_permutex2var_ps(v[0], _mm512_add_epi32(low, _mm512_set1_epi32(8)), v[1]));
  }
};
#endif

constexpr int kNextPiece = -1;

// R rows of A, element (i, p) at a[i * row + p * step], by P panels at once. With `Ahead` > 0, B is
// prefetched that many k ahead in each panel, and at the end of the panels in the next P ones; with
// kNextPiece, from `next` on by `next_step` values per k. `Level` 3 is the L1 cache, 2 the L2 cache.
template <int R, int P, int Ahead, int Level, class T>
[[gnu::always_inline]] inline void any_tile(int64_t k, const float* a, int64_t row, int64_t step, const T* b,
                                            int64_t panel, float* c, int64_t ldc, bool accumulate,
                                            const T* next = nullptr, int64_t next_step = 0) {
  Vec acc[P][R][kVecs] = {};
  if (accumulate) {
#pragma clang loop unroll(full)
    for (int q = 0; q < P; ++q)
#pragma clang loop unroll(full)
      for (int i = 0; i < R; ++i) PanelRow<T>::load_sums(c + i * ldc + q * kNr, acc[q][i]);
  }
  for (int64_t p = 0; p < k; ++p, a += step, b += kNr) {
    const int64_t ahead = Ahead * kNr + (P > 1 && p >= k - Ahead ? (P - 1) * panel : 0);
#pragma clang loop unroll(full)
    for (int q = 0; q < P; ++q) {
      if constexpr (Ahead > 0) __builtin_prefetch(b + q * panel + ahead, 0, Level);
      if constexpr (Ahead == kNextPiece) __builtin_prefetch(next + p * next_step, 0, Level);
      Vec v[kVecs];
      PanelRow<T>::load(b + q * panel, v);
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
    for (int i = 0; i < R; ++i) PanelRow<T>::store_sums(c + i * ldc + q * kNr, acc[q][i]);
}

// Tiles that widen 16-bit weights take them from memory a piece of k after the other, `parts` row panels of A
// per piece: each prefetches its part of the next piece, so that memory and arithmetic work at the same time.
template <int R, class T>
inline void full_tile(int64_t k, const float* a, const T* b, float* c, int64_t ldc, bool accumulate,
                      TilePart part) {
  if constexpr (sizeof(T) == 2)
    any_tile<R, 1, kNextPiece, 2>(k, a, 1, kMr, b, 0, c, ldc, accumulate,
                                  b + (k + k * part.index / part.count) * kNr, kNr / part.count);
  else
    any_tile<R, 1, 0, 2>(k, a, 1, kMr, b, 0, c, ldc, accumulate);
}

// Few rows read 16-bit weights from memory once; the processor's own prefetches end at each page of 4 KiB.
// Measured on a Xeon with AMX, in GB/s on 1, 8 and 16 cores, where plain reads ran at 19, 106 and 75: one row
// 20, 100 and 72 with prefetches 8 KiB ahead over two panels; 17, 98 and 69 over four; 15, 80 and 56 over
// four without prefetches. Eight rows 14, 69 and 57; 7, 45 and 34 without.
template <int M, int P, class T>
inline void full_rows(int64_t k, const float* a, int64_t lda, const T* b, int64_t panel, float* c,
                      int64_t ldc, bool accumulate) {
  constexpr int kAhead = sizeof(T) == 2 ? 8192 / (P * kNr * 2) : 0;
  any_tile<M, P, kAhead, 3>(k, a, lda, 1, b, panel, c, ldc, accumulate);
}

// Panels processed together by the rows kernel: 4 to 20 accumulators, as many as clang keeps in registers.
template <int M, class T>
constexpr int panels_at_once() {
  if (kVecLanes == 16 && sizeof(T) == 2) return M <= 5 ? 2 : 1;
  if (kVecLanes == 16) return M <= 2 ? 4 : M == 3 ? 3 : M <= 5 ? 2 : 1;
  return M == 1 ? 4 : M == 2 ? 2 : 1;
}

}  // namespace makar::kernels::MAKAR_ISA
