// exp_down of four floats, with the same operations in each lane and so the same bits.
#pragma once
#include "kernels/cpu/isa/math.h"
#include "kernels/cpu/isa/quad.h"

namespace makar::kernels::MAKAR_ISA {

#if defined(MAKAR_ISA_neon)
inline Quad quad_of(float x) { return vdupq_n_f32(x); }
inline Quad quad_add(Quad a, Quad b) { return vaddq_f32(a, b); }
inline Quad quad_multiply(Quad a, Quad b) { return vmulq_f32(a, b); }
// quad_at_least: max(x, low). quad_zero_below: x, but 0 where test < low. NaN stays NaN in both.
inline Quad quad_at_least(Quad x, Quad low) { return vmaxq_f32(x, low); }
inline Quad quad_zero_below(Quad x, Quad test, Quad low) {
  return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), vcltq_f32(test, low)));
}
// 2^n, where `shifted` is the integer n plus 1.5 * 2^23.
inline Quad quad_power(Quad shifted) {
  const int32x4_t e = vaddq_s32(vreinterpretq_s32_f32(shifted), vdupq_n_s32(127 - 0x4b400000));
  return vreinterpretq_f32_s32(vshlq_n_s32(e, 23));
}
// (x0 + x2) + (x1 + x3).
inline float quad_sum(Quad x) { return vpadds_f32(vadd_f32(vget_low_f32(x), vget_high_f32(x))); }
#elif defined(MAKAR_ISA_avx2) || defined(MAKAR_ISA_avx512)
inline Quad quad_of(float x) { return _mm_set1_ps(x); }
inline Quad quad_add(Quad a, Quad b) { return _mm_add_ps(a, b); }
inline Quad quad_multiply(Quad a, Quad b) { return _mm_mul_ps(a, b); }
inline Quad quad_at_least(Quad x, Quad low) { return _mm_max_ps(low, x); }
inline Quad quad_zero_below(Quad x, Quad test, Quad low) { return _mm_andnot_ps(_mm_cmplt_ps(test, low), x); }
inline Quad quad_power(Quad shifted) {
  const __m128i e = _mm_add_epi32(_mm_castps_si128(shifted), _mm_set1_epi32(127 - 0x4b400000));
  return _mm_castsi128_ps(_mm_slli_epi32(e, 23));
}
inline float quad_sum(Quad x) {
  const __m128 two = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
#else
template <class F>
inline Quad quad_each(F&& f) {
  return {f(0), f(1), f(2), f(3)};
}
inline Quad quad_of(float x) { return {x, x, x, x}; }
inline Quad quad_add(Quad a, Quad b) {
  return quad_each([&](int i) { return a.v[i] + b.v[i]; });
}
inline Quad quad_multiply(Quad a, Quad b) {
  return quad_each([&](int i) { return a.v[i] * b.v[i]; });
}
inline Quad quad_at_least(Quad x, Quad low) {
  return quad_each([&](int i) { return x.v[i] < low.v[i] ? low.v[i] : x.v[i]; });
}
inline Quad quad_zero_below(Quad x, Quad test, Quad low) {
  return quad_each([&](int i) { return test.v[i] < low.v[i] ? 0.0f : x.v[i]; });
}
inline Quad quad_power(Quad shifted) {
  return quad_each([&](int i) {
    const auto e = static_cast<uint32_t>(std::bit_cast<int32_t>(shifted.v[i]) - 0x4b400000 + 127);
    return std::bit_cast<float>(e << 23);
  });
}
inline float quad_sum(Quad x) { return (x.v[0] + x.v[2]) + (x.v[1] + x.v[3]); }
#endif

// Runs each operation for all quads before the next one: in the other order, the out-of-order window is too
// short to overlap the operations of two quads.
template <int kCount>
inline void quads_exp_down(Quad (&x)[kCount]) {
  const Quad low = quad_of(-87.33f), magic = quad_of(12582912.0f);
  Quad r[kCount], shifted[kCount], p[kCount];
  const auto each = [](auto&& f) {
    for (int i = 0; i < kCount; ++i) f(i);
  };
  each([&](int i) { r[i] = quad_at_least(x[i], low); });
  each([&](int i) { shifted[i] = quad_fma(magic, r[i], quad_of(1.44269504f)); });
  each([&](int i) { p[i] = quad_add(shifted[i], quad_of(-12582912.0f)); });
  each([&](int i) { r[i] = quad_fma(r[i], p[i], quad_of(-0.693359375f)); });
  each([&](int i) { r[i] = quad_fma(r[i], p[i], quad_of(2.12194440e-4f)); });
  each([&](int i) {
    p[i] = quad_fma(quad_of(0.0013933652080595493f), r[i], quad_of(0.00019899288599845022f));
  });
  each([&](int i) { p[i] = quad_fma(quad_of(0.0083332983776927f), p[i], r[i]); });
  each([&](int i) { p[i] = quad_fma(quad_of(0.04166646674275398f), p[i], r[i]); });
  each([&](int i) { p[i] = quad_fma(quad_of(0.1666666716337204f), p[i], r[i]); });
  each([&](int i) { p[i] = quad_fma(quad_of(0.5f), p[i], r[i]); });
  each([&](int i) { r[i] = quad_fma(r[i], quad_multiply(r[i], r[i]), p[i]); });
  each([&](int i) { r[i] = quad_multiply(quad_add(r[i], quad_of(1.0f)), quad_power(shifted[i])); });
  each([&](int i) { x[i] = quad_zero_below(r[i], x[i], low); });
}

// The sum of 16 floats in the order of fold().
inline float quad_fold(const Quad (&v)[kLanes / 4]) {
  return quad_sum(quad_add(quad_add(v[0], v[2]), quad_add(v[1], v[3])));
}

}  // namespace makar::kernels::MAKAR_ISA
