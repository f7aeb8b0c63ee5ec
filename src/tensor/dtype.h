// Element types of tensors and files.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

namespace makar {

enum class DType : uint8_t { kF32, kF16, kBF16, kF64, kI64, kI32, kI16, kI8, kU8, kBool };

constexpr size_t size_of(DType type) {
  switch (type) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
      return 2;
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

constexpr bool is_float(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 || type == DType::kF64;
}

std::string name(DType type);  // "f32"

inline float from_bf16(uint16_t v) { return std::bit_cast<float>(uint32_t{v} << 16); }
inline uint16_t to_bf16(float f) {  // round to nearest even; NaN stays NaN
  const uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
float from_f16(uint16_t v);
uint16_t to_f16(float f);

}  // namespace makar
