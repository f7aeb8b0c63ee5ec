// Packing with AVX-512: transposes of 16 rows by 16 values of 32 bits, and copies of whole vectors.
#pragma once
#include "kernels/cpu/isa/gemm_tiles.h"
#include "kernels/cpu/isa/unrolled.h"

namespace makar::kernels::MAKAR_ISA {

// Calls store(j, column j) for each of the 16 columns of `rows`.
template <class Store>
inline void transpose_16(const __m512 (&rows)[16], const Store& store) {
  const auto pairs = [](__m512 a, __m512 b, bool high) {
    const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
    return _mm512_castpd_ps(high ? _mm512_unpackhi_pd(x, y) : _mm512_unpacklo_pd(x, y));
  };
  __m512 fours[16];  // fours[4 * i + j]: rows 4i to 4i + 3 of columns j, j + 4, j + 8 and j + 12
  MAKAR_UNROLLED
  for (int i = 0; i < 16; i += 4) {
    const __m512 low01 = _mm512_unpacklo_ps(rows[i], rows[i + 1]),
                 low23 = _mm512_unpacklo_ps(rows[i + 2], rows[i + 3]),
                 high01 = _mm512_unpackhi_ps(rows[i], rows[i + 1]),
                 high23 = _mm512_unpackhi_ps(rows[i + 2], rows[i + 3]);
    fours[i] = pairs(low01, low23, false), fours[i + 1] = pairs(low01, low23, true);
    fours[i + 2] = pairs(high01, high23, false), fours[i + 3] = pairs(high01, high23, true);
  }
  MAKAR_UNROLLED
  for (int j = 0; j < 4; ++j) {
    const __m512 a = _mm512_shuffle_f32x4(fours[j], fours[4 + j], 0x88),
                 b = _mm512_shuffle_f32x4(fours[8 + j], fours[12 + j], 0x88),
                 c = _mm512_shuffle_f32x4(fours[j], fours[4 + j], 0xdd),
                 d = _mm512_shuffle_f32x4(fours[8 + j], fours[12 + j], 0xdd);
    store(j, _mm512_shuffle_f32x4(a, b, 0x88));
    store(j + 4, _mm512_shuffle_f32x4(c, d, 0x88));
    store(j + 8, _mm512_shuffle_f32x4(a, b, 0xdd));
    store(j + 12, _mm512_shuffle_f32x4(c, d, 0xdd));
  }
}

// Transposes R rows by 16 k; each row of `out` has R of W values. Whole cache lines are read once, since rows
// that are a multiple of 4 KiB apart share a set of the L1 cache.
template <int R, int W, class T>
inline void transpose_rows(const T* x, int64_t row_stride, float* out) {
  constexpr auto kRows = static_cast<__mmask16>((1u << R) - 1);
  __m512 rows[16];
  MAKAR_UNROLLED
  for (int i = 0; i < 16; ++i) rows[i] = i < R ? load(x + i * row_stride) : zero();
  transpose_16(rows, [&](int j, __m512 column) { _mm512_mask_storeu_ps(out + j * W, kRows, column); });
}

// Transposes a panel of W rows by 16 k.
template <int W, class T>
inline void transpose_panel(const T* x, int64_t row_stride, float* out) {
  if constexpr (W == kMr) {
    transpose_rows<W, W>(x, row_stride, out);
  } else {
    static_assert(W == 32);
    transpose_rows<16, W>(x, row_stride, out);
    transpose_rows<16, W>(x + 16 * row_stride, row_stride, out + 16);
  }
}

// Copies W adjacent values.
template <int W, class T>
inline void copy_row(const T* x, float* out) {
  constexpr int kFull = W / 16 * 16;
  for (int i = 0; i < kFull; i += 16) store(out + i, load(x + i));
  if constexpr (W != kFull) {
    constexpr auto kRest = static_cast<__mmask16>((1u << (W - kFull)) - 1);
    _mm512_mask_storeu_ps(out + kFull, kRest, _mm512_maskz_loadu_ps(kRest, x + kFull));
  }
}

}  // namespace makar::kernels::MAKAR_ISA
