// Element types of tensors and files.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

namespace makar {

// The plain types are followed by GGUF's block types, with ggml's names: consecutive elements of a row share
// scales. The last two are makar's own: kF16_64 stores the bytes of kF16 in blocks of 64 (products with f16
// matrices of GGUF files use it, kernels/cpu/quant.h), kQ8_24 stores Q8_0 weights with 2:4 sparsity: at least
// 2 of every 4 are zero.
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
  kF8_E4M3,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kIQ2_XXS,
  kF16_64,
  kQ8_24
};

struct TypeLayout {
  const char* name;
  int64_t elements;  // elements per block
  size_t bytes;      // bytes per block
};

inline constexpr TypeLayout kTypeLayouts[] = {
    {"f32", 1, 4},      {"f16", 1, 2},      {"bf16", 1, 2},       {"f64", 1, 8},        {"i64", 1, 8},
    {"i32", 1, 4},      {"i16", 1, 2},      {"i8", 1, 1},         {"u8", 1, 1},         {"bool", 1, 1},
    {"f8_e4m3", 1, 1},  {"q4_0", 32, 18},   {"q4_1", 32, 20},     {"q5_0", 32, 22},     {"q5_1", 32, 24},
    {"q8_0", 32, 34},   {"q2_k", 256, 84},  {"q3_k", 256, 110},   {"q4_k", 256, 144},   {"q5_k", 256, 176},
    {"q6_k", 256, 210}, {"iq4_nl", 32, 18}, {"iq4_xs", 256, 136}, {"iq2_xxs", 256, 66}, {"f16_64", 64, 128},
    {"q8_24", 32, 22},
};

constexpr const TypeLayout& layout_of(DType type) { return kTypeLayouts[static_cast<size_t>(type)]; }
constexpr bool is_block(DType type) { return layout_of(type).elements > 1; }
// Bytes per element; 0 for block types.
constexpr size_t size_of(DType type) { return is_block(type) ? 0 : layout_of(type).bytes; }
// Bytes of `count` elements, in whole blocks.
constexpr size_t bytes_of(DType type, int64_t count) {
  return static_cast<size_t>(count / layout_of(type).elements) * layout_of(type).bytes;
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
float from_f8_e4m3(uint8_t v);
float from_f16(uint16_t v);
uint16_t to_f16(float f);

}  // namespace makar
