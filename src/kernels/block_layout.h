// The layout of GGUF's block types, field by field. All fields are bytes, so a block needs no alignment.
#pragma once
#include <cstdint>
#include <cstring>

#include "kernels/inline.h"
#include "tensor/dtype.h"

namespace makar::kernels {

struct Half {  // an f16, little-endian
  uint8_t byte[2];
  MAKAR_INLINE uint16_t bits() const { return static_cast<uint16_t>(byte[0] | byte[1] << 8); }
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
  MAKAR_INLINE int position(int value) const { return positions[value / 4] >> (value % 4 * 2) & 3; }
  // The weights as Q8_0 has them.
  MAKAR_INLINE void dense(int8_t (&q)[32]) const {
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

MAKAR_INLINE uint32_t little32(const uint8_t* p) {  // little-endian
  return uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
}

// Scale and min of sub-block j of a Q4_K or Q5_K block.
MAKAR_INLINE ScaleMin scale_min(const uint8_t* s, int j) {
  if (j < 4) return {static_cast<uint8_t>(s[j] & 63), static_cast<uint8_t>(s[j + 4] & 63)};
  return {static_cast<uint8_t>((s[j + 4] & 15) | (s[j - 4] >> 6) << 4),
          static_cast<uint8_t>((s[j + 4] >> 4) | (s[j] >> 6) << 4)};
}

// The eight values (8, 25 or 43) of entry `index` of the IQ2_XXS grid, coded with two bits each (0, 1, 2),
// lowest bits first.
MAKAR_INLINE uint16_t iq2_xxs_grid(uint8_t index) {
  // The points of the E8 lattice; part of the format.
  static constexpr uint16_t kGrid[256] = {
      0x0000, 0x0002, 0x0005, 0x0008, 0x000a, 0x0011, 0x0014, 0x0020, 0x0022, 0x0028, 0x002a, 0x0041, 0x0044,
      0x0050, 0x0058, 0x0061, 0x0064, 0x0080, 0x0082, 0x008a, 0x00a2, 0x0101, 0x0104, 0x0110, 0x0115, 0x0140,
      0x0184, 0x0198, 0x0200, 0x0202, 0x0222, 0x0282, 0x0401, 0x0404, 0x0410, 0x0421, 0x0424, 0x0440, 0x0442,
      0x0448, 0x0460, 0x0481, 0x0484, 0x0490, 0x04a4, 0x0500, 0x0502, 0x0508, 0x0520, 0x0546, 0x0569, 0x0580,
      0x0591, 0x0609, 0x0610, 0x0640, 0x0684, 0x06a4, 0x0800, 0x0805, 0x0808, 0x0814, 0x0828, 0x0841, 0x0844,
      0x0850, 0x0852, 0x0888, 0x0904, 0x0940, 0x0a02, 0x0a14, 0x1001, 0x1004, 0x1010, 0x1021, 0x1040, 0x1060,
      0x1084, 0x1090, 0x1095, 0x1100, 0x1108, 0x1120, 0x1150, 0x115a, 0x1180, 0x1224, 0x1245, 0x1400, 0x1408,
      0x1420, 0x1425, 0x1449, 0x1480, 0x1518, 0x1562, 0x1600, 0x1616, 0x1801, 0x1804, 0x1810, 0x1840, 0x1881,
      0x1900, 0x1905, 0x19a0, 0x1a51, 0x2000, 0x2002, 0x200a, 0x2044, 0x2061, 0x2080, 0x2082, 0x2129, 0x2148,
      0x2200, 0x2202, 0x2401, 0x2404, 0x2410, 0x2440, 0x2456, 0x2500, 0x2541, 0x2564, 0x2690, 0x2808, 0x2820,
      0x2894, 0x2a44, 0x4001, 0x4004, 0x4010, 0x4018, 0x4021, 0x4024, 0x4040, 0x4048, 0x4056, 0x4060, 0x4081,
      0x4084, 0x4090, 0x4100, 0x4120, 0x4161, 0x4180, 0x4185, 0x4201, 0x4210, 0x4248, 0x4256, 0x4268, 0x4400,
      0x4408, 0x4420, 0x4480, 0x4499, 0x4512, 0x4524, 0x4600, 0x4801, 0x4804, 0x4810, 0x4840, 0x4845, 0x4900,
      0x4958, 0x4961, 0x4982, 0x4a45, 0x4a90, 0x5000, 0x5008, 0x5011, 0x5019, 0x5020, 0x5080, 0x5088, 0x5104,
      0x5142, 0x51a4, 0x5291, 0x5490, 0x5492, 0x550a, 0x5601, 0x5654, 0x5800, 0x5811, 0x5819, 0x5864, 0x5940,
      0x5a08, 0x6004, 0x6010, 0x6040, 0x6068, 0x6100, 0x6155, 0x6218, 0x6260, 0x6400, 0x6405, 0x6510, 0x6512,
      0x6584, 0x6842, 0x8000, 0x8002, 0x800a, 0x8041, 0x8082, 0x8104, 0x8118, 0x8140, 0x8211, 0x8401, 0x8404,
      0x8410, 0x8415, 0x8440, 0x8460, 0x8500, 0x8546, 0x8594, 0x8609, 0x8640, 0x8660, 0x8802, 0x8904, 0x8a11,
      0x9004, 0x9010, 0x9024, 0x9040, 0x90a1, 0x9116, 0x9180, 0x9245, 0x9400, 0x9422, 0x9444, 0x9551, 0x9881,
      0x9920, 0xa002, 0xa050, 0xa085, 0xa109, 0xa200, 0xa418, 0xa850, 0xa904};
  return kGrid[index];
}

}  // namespace makar::kernels
