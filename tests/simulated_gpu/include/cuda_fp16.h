// See cuda_runtime.h.
#pragma once
#include "cuda_runtime.h"

struct __half {
  unsigned short bits;
};
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline float __half2float(__half x) {
  const unsigned sign = (x.bits & 0x8000u) << 16, exponent = x.bits >> 10 & 31, fraction = x.bits & 1023u;
  if (exponent == 31) return __uint_as_float(sign | 0x7F800000u | fraction << 13);
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}
inline __half __float2half_rn(float x) {
  const unsigned u = __float_as_uint(x), sign = u >> 16 & 0x8000u, size = u & 0x7FFFFFFFu;
  if (size > 0x7F800000u) return {0x7FFF};
  if (size >= 0x477FF000u) return {static_cast<unsigned short>(sign | 0x7C00u)};
  if (size < 0x38800000u)  // a multiple of 2^-24, rounded by an addition
    return {
        static_cast<unsigned short>(sign | (__float_as_uint(__uint_as_float(size) + 0.5f) - 0x3F000000u))};
  return {static_cast<unsigned short>(sign | ((size - 0x38000000u + 0xFFFu + (size >> 13 & 1)) >> 13))};
}
