// NEON tiles of the matrix product. A tile of 8 x 12 keeps 24 accumulators, 2 registers of A and 3 of B.
#pragma once
#include <arm_neon.h>

#include <cstddef>

#include "kernels/cpu/isa/gemm_types.h"

namespace makar::kernels::MAKAR_ISA {

constexpr int kMr = 8, kNr = 12, kRowsMax = 7, kKc = 512;

// Twelve columns of one k as f32.
inline void load_row(const float* b, float32x4_t (&v)[3]) {
  v[0] = vld1q_f32(b), v[1] = vld1q_f32(b + 4), v[2] = vld1q_f32(b + 8);
}
inline void load_row(const F16* b, float32x4_t (&v)[3]) {
  const auto* h = reinterpret_cast<const __fp16*>(b);
  const float16x8_t x = vld1q_f16(h);
  v[0] = vcvt_f32_f16(vget_low_f16(x)), v[1] = vcvt_high_f32_f16(x), v[2] = vcvt_f32_f16(vld1_f16(h + 8));
}
inline void load_row(const BF16* b, float32x4_t (&v)[3]) {
  const auto* h = reinterpret_cast<const uint16_t*>(b);
  const uint16x8_t x = vld1q_u16(h);
  v[0] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(x), 16));
  v[1] = vreinterpretq_f32_u32(vshll_high_n_u16(x, 16));
  v[2] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(h + 8), 16));
}

template <int I>
inline float32x4_t fma_lane(float32x4_t acc, float32x4_t b, float32x4_t a0, float32x4_t a1) {
  if constexpr (I < 4)
    return vfmaq_laneq_f32(acc, b, a0, I);
  else
    return vfmaq_laneq_f32(acc, b, a1, I - 4);
}

template <int R, int I = 0>
inline void fma_column(float32x4_t (&acc)[R][3], const float32x4_t (&b)[3], float32x4_t a0, float32x4_t a1) {
  if constexpr (I < R) {
    for (int j = 0; j < 3; ++j) acc[I][j] = fma_lane<I>(acc[I][j], b[j], a0, a1);
    fma_column<R, I + 1>(acc, b, a0, a1);
  }
}

// R rows of an A panel [k][8] by one B panel [k][12] of type T.
template <int R, class T>
inline void full_tile(int64_t k, const float* a, const T* b, float* c, int64_t ldc, bool accumulate,
                      TilePart) {
  float32x4_t acc[R][3];
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < 3; ++j) acc[i][j] = accumulate ? vld1q_f32(c + i * ldc + 4 * j) : vdupq_n_f32(0);
  const auto step = [&] {
    float32x4_t v[3];
    load_row(b, v);
    const float32x4_t a0 = vld1q_f32(a), a1 = R > 4 ? vld1q_f32(a + 4) : a0;
    fma_column<R>(acc, v, a0, a1);
    a += kMr, b += kNr;
  };
  int64_t p = 0;
  for (; p + 4 <= k; p += 4) {
    // Prefetching gains 4 %: the panels are in the L2 cache or further away.
    for (int line = 0; line < 2; ++line) __builtin_prefetch(a + 256 + 16 * line);
    for (int line = 0; line < 3; ++line) __builtin_prefetch(b + 192 + 16 * line);
    step(), step(), step(), step();
  }
  for (; p < k; ++p) step();
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < 3; ++j) vst1q_f32(c + i * ldc + 4 * j, acc[i][j]);
}

template <int L, int M, int P, class T>
inline void rows_step(float32x4_t (&acc)[P][M][3], const float32x4_t (&a)[M], const T* b, int64_t panel) {
  for (int q = 0; q < P; ++q) {
    float32x4_t v[3];
    load_row(b + q * panel + L * kNr, v);
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < 3; ++j) acc[q][i][j] = vfmaq_laneq_f32(acc[q][i][j], v[j], a[i], L);
    if (P * M >= 6) asm volatile("" ::: "memory");  // otherwise clang moves later loads up here and spills
  }
}

// M unpacked rows of A (k contiguous) by P panels at once, so that enough accumulators are in flight.
template <int M, int P, class T>
inline void full_rows(int64_t k, const float* a, int64_t lda, const T* b, int64_t panel, float* c,
                      int64_t ldc, bool accumulate) {
  float32x4_t acc[P][M][3];
  for (int q = 0; q < P; ++q)
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < 3; ++j)
        acc[q][i][j] = accumulate ? vld1q_f32(c + i * ldc + q * kNr + 4 * j) : vdupq_n_f32(0);
  int64_t p = 0;
  for (; p + 4 <= k; p += 4, b += 4 * kNr) {
    float32x4_t x[M];
    for (int i = 0; i < M; ++i) x[i] = vld1q_f32(a + i * lda + p);
    rows_step<0>(acc, x, b, panel);
    rows_step<1>(acc, x, b, panel);
    rows_step<2>(acc, x, b, panel);
    rows_step<3>(acc, x, b, panel);
  }
  for (; p < k; ++p, b += kNr) {
    float32x4_t x[M];
    for (int i = 0; i < M; ++i) x[i] = vld1q_dup_f32(a + i * lda + p);
    rows_step<0>(acc, x, b, panel);
  }
  for (int q = 0; q < P; ++q)
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < 3; ++j) vst1q_f32(c + i * ldc + q * kNr + 4 * j, acc[q][i][j]);
}

// One row by f16 panels, for finite weights. Only one pipeline converts f16, which is slower than memory. So
// half of the weights are converted; the bits of the others are shifted to their positions in an f32: the
// sign to the top, exponent and fraction three bits down. The result is weight * 2^-112, which the activation
// times 2^112 compensates exactly.
inline float32x4_t shifted_low(int16x8_t w) {
  const int32x4_t bits = vshll_n_s16(vget_low_s16(w), 13);  // the sign in the upper four bits
  return vreinterpretq_f32_s32(vandq_s32(bits, vdupq_n_s32(static_cast<int32_t>(0x8fffe000u))));
}
inline float32x4_t converted_high(int16x8_t w) { return vcvt_high_f32_f16(vreinterpretq_f16_s16(w)); }

// Rows L and L + 1 of four: 24 weights.
template <int L>
inline void half_rows(float32x4_t (&acc)[3], float32x4_t x, float32x4_t scaled_x, const int16_t* b) {
  const int16x8_t w0 = vld1q_s16(b), w1 = vld1q_s16(b + 8), w2 = vld1q_s16(b + 16);
  acc[0] = vfmaq_laneq_f32(acc[0], shifted_low(w0), scaled_x, L);
  acc[1] = vfmaq_laneq_f32(acc[1], converted_high(w0), x, L);
  acc[2] = vfmaq_laneq_f32(acc[2], shifted_low(w1), scaled_x, L);
  acc[0] = vfmaq_laneq_f32(acc[0], converted_high(w1), x, L + 1);
  acc[1] = vfmaq_laneq_f32(acc[1], shifted_low(w2), scaled_x, L + 1);
  acc[2] = vfmaq_laneq_f32(acc[2], converted_high(w2), x, L + 1);
}

inline void half_panel(int64_t k, const float* a, const std::byte* panel, float* c, bool accumulate) {
  const auto* b = reinterpret_cast<const int16_t*>(panel);
  float32x4_t acc[3];
  for (int j = 0; j < 3; ++j) acc[j] = accumulate ? vld1q_f32(c + 4 * j) : vdupq_n_f32(0);
  int64_t p = 0;
  for (; p + 4 <= k; p += 4, b += 4 * kNr) {
    const float32x4_t x = vld1q_f32(a + p), scaled_x = vmulq_n_f32(x, 0x1p112f);
    half_rows<0>(acc, x, scaled_x, b);
    half_rows<2>(acc, x, scaled_x, b + 2 * kNr);
  }
  for (; p < k; ++p, b += kNr) {
    float32x4_t w[3];
    load_row(reinterpret_cast<const F16*>(b), w);
    for (int j = 0; j < 3; ++j) acc[j] = vfmaq_n_f32(acc[j], w[j], a[p]);
  }
  for (int j = 0; j < 3; ++j) vst1q_f32(c + 4 * j, acc[j]);
}

// Number of panels that the rows kernel processes together. Each panel is one stream from memory, and one
// stream per thread is fastest; two only where one has too few accumulators to keep up with memory.
template <int M, class T>
constexpr int panels_at_once() {
  return M <= 2 && sizeof(T) == 2 ? 2 : 1;
}

}  // namespace makar::kernels::MAKAR_ISA
