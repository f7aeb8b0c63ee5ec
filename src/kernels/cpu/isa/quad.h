// Four floats: loads from f32, f16 and bf16, stores, products, sums, and the 4 x 4 transpose used for
// packing.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa/gemm_tiles.h"

namespace makar::kernels::MAKAR_ISA {

#if defined(MAKAR_ISA_neon)
using Quad = float32x4_t;
inline Quad quad_zero() { return vdupq_n_f32(0); }
inline Quad quad_load(const float* x) { return vld1q_f32(x); }
inline Quad quad_load(const F16* x) { return vcvt_f32_f16(vld1_f16(reinterpret_cast<const __fp16*>(x))); }
inline Quad quad_load(const BF16* x) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(x)), 16));
}
inline void quad_store(float* x, Quad v) { vst1q_f32(x, v); }
inline Quad quad_fma(Quad acc, Quad v, float x) { return vfmaq_n_f32(acc, v, x); }
inline Quad quad_fma(Quad acc, Quad v, Quad x) { return vfmaq_f32(acc, v, x); }
inline Quad quad_scale(Quad v, float x) { return vmulq_n_f32(v, x); }
inline void quad_store_low(float* x, Quad v) { vst1_f32(x, vget_low_f32(v)); }
inline void quad_transpose(Quad (&v)[4]) {
  const float32x4_t t0 = vtrn1q_f32(v[0], v[1]), t1 = vtrn2q_f32(v[0], v[1]);
  const float32x4_t t2 = vtrn1q_f32(v[2], v[3]), t3 = vtrn2q_f32(v[2], v[3]);
  const auto as_f64 = [](float32x4_t x) { return vreinterpretq_f64_f32(x); };
  v[0] = vreinterpretq_f32_f64(vtrn1q_f64(as_f64(t0), as_f64(t2)));
  v[1] = vreinterpretq_f32_f64(vtrn1q_f64(as_f64(t1), as_f64(t3)));
  v[2] = vreinterpretq_f32_f64(vtrn2q_f64(as_f64(t0), as_f64(t2)));
  v[3] = vreinterpretq_f32_f64(vtrn2q_f64(as_f64(t1), as_f64(t3)));
}
#elif defined(MAKAR_ISA_avx2) || defined(MAKAR_ISA_avx512)
using Quad = __m128;
inline Quad quad_zero() { return _mm_setzero_ps(); }
inline Quad quad_load(const float* x) { return _mm_loadu_ps(x); }
inline Quad quad_load(const F16* x) {
  return _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x)));
}
inline Quad quad_load(const BF16* x) {
  const __m128i bits = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  return _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(bits), 16));
}
inline void quad_store(float* x, Quad v) { _mm_storeu_ps(x, v); }
inline Quad quad_fma(Quad acc, Quad v, float x) { return _mm_fmadd_ps(v, _mm_set1_ps(x), acc); }
inline Quad quad_fma(Quad acc, Quad v, Quad x) { return _mm_fmadd_ps(v, x, acc); }
inline Quad quad_scale(Quad v, float x) { return _mm_mul_ps(v, _mm_set1_ps(x)); }
inline void quad_store_low(float* x, Quad v) { _mm_storel_pi(reinterpret_cast<__m64*>(x), v); }
inline void quad_transpose(Quad (&v)[4]) { _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]); }
#else
struct Quad {
  float v[4];
};
inline Quad quad_zero() { return {}; }
template <class T>
inline Quad quad_load(const T* x) {
  return {widen(x[0]), widen(x[1]), widen(x[2]), widen(x[3])};
}
inline void quad_store(float* x, Quad v) {
  for (int i = 0; i < 4; ++i) x[i] = v.v[i];
}
inline Quad quad_fma(Quad acc, Quad v, float x) {
  for (int i = 0; i < 4; ++i) acc.v[i] = std::fma(v.v[i], x, acc.v[i]);
  return acc;
}
inline Quad quad_fma(Quad acc, Quad v, Quad x) {
  for (int i = 0; i < 4; ++i) acc.v[i] = std::fma(v.v[i], x.v[i], acc.v[i]);
  return acc;
}
inline Quad quad_scale(Quad v, float x) {
  for (float& f : v.v) f *= x;
  return v;
}
inline void quad_store_low(float* x, Quad v) { x[0] = v.v[0], x[1] = v.v[1]; }
inline void quad_transpose(Quad (&v)[4]) {
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < i; ++j) {
      const float t = v[i].v[j];
      v[i].v[j] = v[j].v[i], v[j].v[i] = t;
    }
}
#endif

// Converts one element as quad_load() does.
template <class T>
inline float quad_one(const T* x) {
  T four[4] = {*x};
  float out[4];
  quad_store(out, quad_load(four));
  return out[0];
}
inline float quad_one(const float* x) { return *x; }

}  // namespace makar::kernels::MAKAR_ISA
