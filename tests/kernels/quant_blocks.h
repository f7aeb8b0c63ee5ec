// Random blocks of every GGUF type: all bits random, scales of reasonable size.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/block_layout.h"

namespace makar::kernels::test {

inline const std::vector<DType>& block_types() {
  static const std::vector<DType> all = {DType::kQ4_0,    DType::kQ4_1,   DType::kQ5_0,   DType::kQ5_1,
                                         DType::kQ8_0,    DType::kQ2_K,   DType::kQ3_K,   DType::kQ4_K,
                                         DType::kQ5_K,    DType::kQ6_K,   DType::kIQ4_NL, DType::kIQ4_XS,
                                         DType::kIQ2_XXS, DType::kF16_64, DType::kQ8_24};
  return all;
}

struct Random {
  uint64_t x;
  uint32_t next() {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return static_cast<uint32_t>(x >> 32);
  }
  float unit() { return static_cast<float>(static_cast<int32_t>(next())) * 0x1p-31f; }  // [-1, 1)
};

// Byte offsets of the f16 fields of a block.
inline std::vector<size_t> halves_of(DType type) {
  switch (type) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, dmin)};
    case DType::kQ3_K:
      return {offsetof(BlockQ3_K, d)};
    case DType::kQ6_K:
      return {offsetof(BlockQ6_K, d)};
    default:
      return {0};
  }
}

// Scales have both signs and a magnitude of at most 0.16. Source has the functions of Random.
template <class Source>
std::vector<uint8_t> blocks_from(Source random, DType type, int64_t count) {
  const size_t bytes = bytes_of(type, count), block_bytes = layout_of(type).bytes;
  std::vector<uint8_t> out(bytes);
  for (uint8_t& b : out) b = static_cast<uint8_t>(random.next());
  if (type == DType::kF16_64)  // values below 2; two of three blocks use half of the exponents
    for (size_t at = 1; at < bytes; at += 2) out[at] &= at / block_bytes % 3 ? 0xb7 : 0xbf;
  else
    for (size_t at = 0; at < bytes; at += block_bytes)
      for (const size_t field : halves_of(type)) {
        Half half{};
        const float unit = random.unit();
        half.set(unit * 0.01f * static_cast<float>(1 + random.next() % 16));
        std::memcpy(&out[at + field], half.byte, 2);
      }
  return out;
}

template <class Source>
std::vector<float> floats_from(Source random, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) {
    const float unit = random.unit();
    v = unit * static_cast<float>(1u << (random.next() % 4));
  }
  return out;
}

inline Random seeded(uint64_t seed) { return {seed * 0x9e3779b97f4a7c15u + 1}; }
inline std::vector<uint8_t> random_blocks(DType type, int64_t count, uint64_t seed) {
  return blocks_from(seeded(seed), type, count);
}
inline std::vector<float> random_floats(int64_t count, uint64_t seed) {
  return floats_from(seeded(seed), count);
}

}  // namespace makar::kernels::test
