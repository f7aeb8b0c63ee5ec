#include "tensor/dtype.h"

#include <cmath>
#include <limits>

namespace makar {

std::string name(DType type) { return layout_of(type).name; }

float from_f8_e4m3(uint8_t v) {
  const int exponent = (v >> 3) & 15, mantissa = v & 7;
  float x = exponent == 0 ? static_cast<float>(mantissa) * 0x1p-9f
                          : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  if (exponent == 15 && mantissa == 7) x = std::numeric_limits<float>::quiet_NaN();
  return v & 0x80 ? -x : x;
}

float from_f16(uint16_t v) {
  const uint32_t sign = uint32_t{v & 0x8000u} << 16, rest = v & 0x7fffu;
  if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  if (rest >= 0x0400u) return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000u));
  const float subnormal = static_cast<float>(rest) * 0x1p-24f;  // or zero
  return sign ? -subnormal : subnormal;
}

uint16_t to_f16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (a >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (a < 0x38800000u) {  // subnormal: let the float adder round to nearest even
    const float shifted = std::bit_cast<float>(a) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  return static_cast<uint16_t>(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13));
}

}  // namespace makar
