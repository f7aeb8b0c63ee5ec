// Elementary functions as straight-line code that compilers vectorise: the same operations in the same order
// in every lane and on every instruction set, so the bits are identical everywhere. Polynomials are Chebyshev
// fits; errors were measured against double precision (about 1-2 ulp).
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/isa/unrolled.h"
#include "kernels/inline.h"

namespace makar::kernels::MAKAR_ISA {

MAKAR_INLINE float madd(float a, float b, float c) { return std::fma(a, b, c); }

// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2.
MAKAR_INLINE float exp_series(float r) {
  float p = 0.00019899288599845022f;
  p = madd(p, r, 0.0013933652080595493f);
  p = madd(p, r, 0.0083332983776927f);
  p = madd(p, r, 0.04166646674275398f);
  p = madd(p, r, 0.1666666716337204f);
  return madd(p, r, 0.5f);
}

// e^x; 0 below -87.3, infinity above 88.7, NaN for NaN.
MAKAR_INLINE float exp_of(float x) {
  const float clamped = x < -87.33f ? -87.33f : (x > 88.72f ? 88.72f : x);
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = madd(clamped, 1.44269504f, magic);
  const float n = shifted - magic;
  float r = madd(n, -0.693359375f, clamped);
  r = madd(n, 2.12194440e-4f, r);
  const float y = madd(r * r, exp_series(r), r) + 1.0f;
  // Split the power of two in halves, because 2^128 does not fit the exponent field.
  const int32_t e = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(magic), half = e >> 1;
  const float scale_a = std::bit_cast<float>((half + 127) << 23),
              scale_b = std::bit_cast<float>((e - half + 127) << 23);
  float out = y * scale_a * scale_b;
  out = x < -87.33f ? 0.0f : out;
  out = x > 88.72f ? std::bit_cast<float>(0x7f800000) : out;
  return x != x ? x : out;
}

// exp_of for |x| <= 87.33 (or NaN), bit-identical but cheaper: nothing overflows, and one power of two is
// enough.
MAKAR_INLINE float exp_within(float x) {
  const float magic = 12582912.0f;
  const float shifted = madd(x, 1.44269504f, magic);
  const float n = shifted - magic;
  const float r = madd(n, 2.12194440e-4f, madd(n, -0.693359375f, x));
  const float y = madd(r * r, exp_series(r), r) + 1.0f;
  const int32_t e = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(magic);
  return y * std::bit_cast<float>((e + 127) << 23);
}

// exp_of for x <= 0 (or NaN).
MAKAR_INLINE float exp_down(float x) {
  const float out = exp_within(x < -87.33f ? -87.33f : x);
  return x < -87.33f ? 0.0f : out;
}

// 1 / (1 + e^-x); 0 below -87.3.
MAKAR_INLINE float sigmoid_of(float x) {
  const float out = 1.0f / (1.0f + exp_within(x > 87.33f ? -87.33f : (x < -87.33f ? 87.33f : -x)));
  return x < -87.33f ? 0.0f : out;
}

MAKAR_INLINE float tanh_of(float x) {
  const float s = x * x;
  float p = 0.0020799855701625347f;
  p = madd(p, s, -0.008105866611003876f);
  p = madd(p, s, 0.02167009748518467f);
  p = madd(p, s, -0.053940657526254654f);
  p = madd(p, s, 0.13333149254322052f);
  p = madd(p, s, -0.333333283662796f);
  const float near_zero = madd(p * s, x, x);
  const float a = std::fabs(x);
  const float far = std::copysign(1.0f - 2.0f / (exp_of(2.0f * a) + 1.0f), x);
  return a < 0.64f ? near_zero : far;
}

MAKAR_INLINE float erf_of(float x) {
  const float s = x * x;
  float p = -9.673591193859465e-06f;
  p = madd(p, s, 0.00011268253729213029f);
  p = madd(p, s, -0.0008484396385028958f);
  p = madd(p, s, 0.005221053492277861f);
  p = madd(p, s, -0.026865437626838684f);
  p = madd(p, s, 0.11283782869577408f);
  p = madd(p, s, -0.37612637877464294f);
  p = madd(p, s, 1.128379225730896f);
  const float near_zero = p * x;
  const float a = std::fabs(x), t = a > 4.0f ? 4.0f : a;  // -ln erfc(t) on [1, 4]
  float q = -1.6140616025950294e-06f;
  q = madd(q, t, 4.559062290354632e-05f);
  q = madd(q, t, -0.0005927695310674608f);
  q = madd(q, t, 0.004740222357213497f);
  q = madd(q, t, -0.02636471763253212f);
  q = madd(q, t, 0.10997824370861053f);
  q = madd(q, t, 0.6319370865821838f);
  q = madd(q, t, 1.1301666498184204f);
  q = madd(q, t, -0.0003032129898201674f);
  const float far = std::copysign(1.0f - exp_of(-q), x);
  return a < 1.0f ? near_zero : far;
}

// The natural logarithm, in double and rounded once: x = m 2^e with m in [1/sqrt(2), sqrt(2)), log(m) by the
// series of artanh. -infinity for 0, NaN below it.
MAKAR_INLINE double log_wide(double x) {
  const int64_t bits = std::bit_cast<int64_t>(x);
  const int64_t e = (bits - std::bit_cast<int64_t>(0.7071067811865476)) >> 52;
  const double m = std::bit_cast<double>(bits - (e << 52));
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 1.0 / 21;
  for (int k = 19; k >= 3; k -= 2) p = std::fma(p, z, 1.0 / k);
  return std::fma(static_cast<double>(e), 0.6931471805599453, 2.0 * std::fma(s * z, p, s));
}
MAKAR_INLINE float log_of(float x) {
  if (!(x > 0.0f)) return x == 0.0f ? -INFINITY : std::bit_cast<float>(0x7fc00000);
  return x == INFINITY ? x : static_cast<float>(log_wide(static_cast<double>(x)));
}
// log(1 + e^x): the larger of x and 0, plus log(1 + y) for y = e^-|x|, which is y times a polynomial.
MAKAR_INLINE float softplus_of(float x) {
  const float y = exp_down(x > 0.0f ? -x : x);
  float p = -0.0031760570127516985f;
  p = madd(p, y, 0.019542526453733444f);
  p = madd(p, y, -0.056373611092567444f);
  p = madd(p, y, 0.10543623566627502f);
  p = madd(p, y, -0.1526966691017151f);
  p = madd(p, y, 0.1966327428817749f);
  p = madd(p, y, -0.24951615929603577f);
  p = madd(p, y, 0.33329710364341736f);
  p = madd(p, y, -0.49999892711639404f);
  p = madd(p, y, 1.0f);
  return madd(p, y, x > 0.0f ? x : 0.0f);
}

// Sine and cosine in double, within 1 ulp of double for angles up to 2^30: three-part reduction by multiples
// of pi / 2, then the Taylor series.
struct CosSin {
  double cos, sin;
};
MAKAR_INLINE CosSin cos_sin_of(float angle) {
  const double x = static_cast<double>(angle), magic = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = std::fma(x, 0.6366197723675814, magic), n = shifted - magic;
  double r = std::fma(n, -1.5707963267948966, x);
  r = std::fma(n, -6.123233995736766e-17, r);
  r = std::fma(n, 1.4973849048591833e-33, r);
  const double z = r * r;
  double s = -1.0 / 121645100408832000, c = 1.0 / 6402373705728000;
  s = std::fma(s, z, 1.0 / 355687428096000);
  s = std::fma(s, z, -1.0 / 1307674368000);
  s = std::fma(s, z, 1.0 / 6227020800);
  s = std::fma(s, z, -1.0 / 39916800);
  s = std::fma(s, z, 1.0 / 362880);
  s = std::fma(s, z, -1.0 / 5040);
  s = std::fma(s, z, 1.0 / 120);
  s = std::fma(s, z, -1.0 / 6);
  s = std::fma(s * z, r, r);
  c = std::fma(-c, z, 1.0 / 20922789888000);
  c = std::fma(c, z, -1.0 / 87178291200);
  c = std::fma(c, z, 1.0 / 479001600);
  c = std::fma(c, z, -1.0 / 3628800);
  c = std::fma(c, z, 1.0 / 40320);
  c = std::fma(c, z, -1.0 / 720);
  c = std::fma(c, z, 1.0 / 24);
  c = std::fma(c, z, -0.5);
  c = std::fma(c, z, 1.0);
  const auto quarter = std::bit_cast<int64_t>(shifted) & 3;
  const double cos = quarter & 1 ? s : c, sin = quarter & 1 ? c : s;
  return {quarter == 1 || quarter == 2 ? -cos : cos, quarter >= 2 ? -sin : sin};
}

// Sums over a row in a fixed tree: lane i adds elements i, i+16, ...; then the lanes are reduced by halving.
constexpr int kLanes = 16;
MAKAR_INLINE float fold(float* lanes) {
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}
#if defined(__CUDACC__)
struct LaneVector {
  float x[kLanes];
  MAKAR_INLINE float& operator[](int i) { return x[i]; }
  MAKAR_INLINE float operator[](int i) const { return x[i]; }
};
#else
using LaneVector = float __attribute__((vector_size(kLanes * sizeof(float))));  // stays in vector registers
#endif
// Applies lane = update(i, lane) for each i in [0, n), where lane i % 16 has element i, and returns
// join(lanes).
template <class Update, class Join>
MAKAR_INLINE float reduce(int64_t n, float start, const Update& update, const Join& join) {
  LaneVector lanes;
  for (int j = 0; j < kLanes; ++j) lanes[j] = start;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    LaneVector next;
    MAKAR_UNROLLED
    for (int j = 0; j < kLanes; ++j) next[j] = update(i + j, lanes[j]);
    lanes = next;
  }
  float last[kLanes];
  for (int j = 0; j < kLanes; ++j) last[j] = lanes[j];
  for (int j = 0; i + j < n; ++j) last[j] = update(i + j, last[j]);
  return join(last);
}
template <class F>
MAKAR_INLINE float sum_of(int64_t n, F&& term) {  // term(i) is called once per i
  return reduce(
      n, 0.0f, [&](int64_t i, float sum) { return sum + term(i); }, fold);
}
// Sum of a(i) * b(i), fused.
template <class A, class B>
MAKAR_INLINE float dot_of(int64_t n, A&& a, B&& b) {
  return reduce(
      n, 0.0f, [&](int64_t i, float sum) { return madd(a(i), b(i), sum); }, fold);
}
MAKAR_INLINE float larger(float x, float m) { return x > m ? x : m; }
MAKAR_INLINE float largest(float* lanes) {
  float m = lanes[0];
  for (int j = 1; j < kLanes; ++j) m = larger(lanes[j], m);
  return m;
}
MAKAR_INLINE float max_of(const float* x, int64_t n) {
  return reduce(
      n, -INFINITY, [x](int64_t i, float m) { return larger(x[i], m); }, largest);
}

}  // namespace makar::kernels::MAKAR_ISA
