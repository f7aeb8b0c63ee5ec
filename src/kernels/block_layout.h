// The layout of GGUF's block types, field by field. All fields are bytes, so a block needs no alignment.
#pragma once
#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"

namespace makar::kernels {

struct Half {  // an f16, little-endian
  uint8_t byte[2];
  uint16_t bits() const { return static_cast<uint16_t>(byte[0] | byte[1] << 8); }
  float value() const { return from_f16(bits()); }
  void set(float v) {
    const uint16_t u = to_f16(v);
    byte[0] = static_cast<uint8_t>(u), byte[1] = static_cast<uint8_t>(u >> 8);
  }
};

// Blocks of 32: value = d * q, or d * q + m. Byte j of qs holds values j (low nibble) and j + 16.
struct BlockQ4_0 {  // q - 8
  Half d;
  uint8_t qs[16];
};
struct BlockQ4_1 {
  Half d, m;
  uint8_t qs[16];
};
struct BlockQ5_0 {  // q - 16; bit j of qh is the fifth bit of value j
  Half d;
  uint8_t qh[4], qs[16];
};
struct BlockQ5_1 {
  Half d, m;
  uint8_t qh[4], qs[16];
};
struct BlockQ8_0 {
  Half d;
  int8_t qs[32];
};
struct BlockIQ4_NL {  // d * kIq4Values[q]
  Half d;
  uint8_t qs[16];
};

struct BlockF16_64 {
  Half values[64];
};

// 32 weights, at most 2 of every 4 not zero: two values per group of 4, and two bits per value for its
// position in the group, lowest bits first. If both values have the same position, the second one is used.
struct BlockQ8_24 {
  Half d;
  int8_t qs[16];
  uint8_t positions[4];
  int position(int value) const { return positions[value / 4] >> (value % 4 * 2) & 3; }
  // The weights as Q8_0 has them.
  void dense(int8_t (&q)[32]) const {
    std::memset(q, 0, sizeof q);
    for (int i = 0; i < 16; ++i) q[i / 2 * 4 + position(i)] = qs[i];
  }
};

// Super-blocks of 256: sub-blocks of 16 or 32 with small integer scales.
struct BlockQ2_K {  // d * scale * q - dmin * min; scale and min are the nibbles of scales
  uint8_t scales[16], qs[64];
  Half d, dmin;
};
struct BlockQ3_K {  // d * (scale - 32) * (q - 4); hmask holds the third bits
  uint8_t hmask[32], qs[64], scales[12];
  Half d;
};
struct BlockQ4_K {  // d * scale * q - dmin * min, 6-bit scales and mins packed into 12 bytes
  Half d, dmin;
  uint8_t scales[12], qs[128];
};
struct BlockQ5_K {
  Half d, dmin;
  uint8_t scales[12], qh[32], qs[128];
};
struct BlockQ6_K {  // d * scale * (q - 32)
  uint8_t ql[128], qh[64];
  int8_t scales[16];
  Half d;
};
struct BlockIQ4_XS {  // d * (scale - 32) * kIq4Values[q], 6-bit scales
  Half d;
  uint8_t scales_h[2], scales_l[4], qs[128];
};
struct BlockIQ2_XXS {  // per 8 bytes: four indices into a grid of 8 values, then 4 x 7 sign bits and a scale
  Half d;
  uint8_t qs[64];
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockIQ4_NL) == 18);
static_assert(sizeof(BlockQ2_K) == 84 && sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144);
static_assert(sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210 && sizeof(BlockIQ4_XS) == 136);
static_assert(sizeof(BlockIQ2_XXS) == 66 && sizeof(BlockQ8_24) == 22);

inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

struct ScaleMin {
  uint8_t scale, min;  // 0..63
};

inline uint32_t little32(const uint8_t* p) {  // little-endian
  return uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
}

// Scale and min of sub-block j of a Q4_K or Q5_K block.
inline ScaleMin scale_min(const uint8_t* s, int j) {
  if (j < 4) return {static_cast<uint8_t>(s[j] & 63), static_cast<uint8_t>(s[j + 4] & 63)};
  return {static_cast<uint8_t>((s[j + 4] & 15) | (s[j - 4] >> 6) << 4),
          static_cast<uint8_t>((s[j + 4] >> 4) | (s[j] >> 6) << 4)};
}

}  // namespace makar::kernels
