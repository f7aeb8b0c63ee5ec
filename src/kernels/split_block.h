// Splits a block of a GGUF type into small integers and scales as stored: for the packing of all devices.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/block_layout.h"

#if defined(__CUDACC__)
#define MAKAR_VECTORIZED
#else
#define MAKAR_VECTORIZED _Pragma("clang loop unroll(disable) vectorize(enable)")
#endif

namespace makar::kernels {

struct SplitBlock {
  int8_t q[256];       // values, or indices into the codebook
  uint16_t d, min;     // f16 bits; min is added
  uint8_t scales[16];  // sub-block scales, if any; with bias 128 in forms without mins
  uint8_t part_mins[16];
};

constexpr int kScaleBias = 128;  // added to stored scales in forms without mins
// The codebook of IQ2_XXS: the code of the grid, plus 4 for a minus sign.
inline constexpr int8_t kIq2Book[16] = {8, 25, 43, 0, -8, -25, -43, 0, 0, 0, 0, 0, 0, 0, 0, 0};

MAKAR_INLINE uint16_t negated(uint16_t half) { return half ^ 0x8000u; }

MAKAR_INLINE void nibbles(const uint8_t* from, int offset, int8_t* q) {
  uint8_t qs[16];  // byte pointers may alias: a copy lets the compiler assume that the values do not change
  std::memcpy(qs, from, 16);
  for (int j = 0; j < 16; ++j) {
    q[j] = static_cast<int8_t>((qs[j] & 15) - offset);
    q[j + 16] = static_cast<int8_t>((qs[j] >> 4) - offset);
  }
}
MAKAR_INLINE void five_bits(const uint8_t* qs, const uint8_t* qh, int offset, int8_t* q) {
  const uint32_t high = little32(qh);
  nibbles(qs, offset, q);
  for (int j = 0; j < 32; ++j) q[j] = static_cast<int8_t>(q[j] + static_cast<int>((high >> j & 1) << 4));
}

MAKAR_INLINE void split(const BlockQ8_0& b, SplitBlock& o) { std::memcpy(o.q, b.qs, 32), o.d = b.d.bits(); }
MAKAR_INLINE void split(const BlockQ8_24& b, SplitBlock& o) {
  int8_t q[32];
  b.dense(q);
  std::memcpy(o.q, q, 32), o.d = b.d.bits();
}
MAKAR_INLINE void split(const BlockQ4_0& b, SplitBlock& o) { nibbles(b.qs, 8, o.q), o.d = b.d.bits(); }
MAKAR_INLINE void split(const BlockIQ4_NL& b, SplitBlock& o) { nibbles(b.qs, 0, o.q), o.d = b.d.bits(); }
MAKAR_INLINE void split(const BlockQ4_1& b, SplitBlock& o) {
  nibbles(b.qs, 0, o.q), o.d = b.d.bits(), o.min = b.m.bits();
}
MAKAR_INLINE void split(const BlockQ5_0& b, SplitBlock& o) {
  five_bits(b.qs, b.qh, 16, o.q), o.d = b.d.bits();
}
MAKAR_INLINE void split(const BlockQ5_1& b, SplitBlock& o) {
  five_bits(b.qs, b.qh, 0, o.q), o.d = b.d.bits(), o.min = b.m.bits();
}

MAKAR_INLINE void split(const BlockQ2_K& b, SplitBlock& o) {
  for (int part = 0; part < 16; ++part) {
    const uint8_t* q = b.qs + part / 8 * 32 + part % 2 * 16;
    const int shift = part % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) o.q[part * 16 + i] = static_cast<int8_t>(q[i] >> shift & 3);
    o.scales[part] = b.scales[part] & 15, o.part_mins[part] = b.scales[part] >> 4;
  }
  o.d = b.d.bits(), o.min = negated(b.dmin.bits());
}

MAKAR_INLINE void split(const BlockQ3_K& b, SplitBlock& o) {
  for (int part = 0; part < 16; ++part) {
    const int at = part % 2 * 16, shift = part % 8 / 2 * 2, bit = part / 2;
    const uint8_t* q = b.qs + part / 8 * 32 + at;
    for (int i = 0; i < 16; ++i)
      o.q[part * 16 + i] = static_cast<int8_t>((q[i] >> shift & 3) + (b.hmask[at + i] >> bit & 1) * 4 - 4);
    const int low = part < 8 ? b.scales[part] & 15 : b.scales[part - 8] >> 4;
    const int scale = (low | (b.scales[8 + part % 4] >> (part / 4 * 2) & 3) << 4) - 32;
    o.scales[part] = static_cast<uint8_t>(scale + kScaleBias);
  }
  o.d = b.d.bits();
}

// 32 bytes: their low nibbles, then their high nibbles.
MAKAR_INLINE void halves(const uint8_t* __restrict from, int8_t* __restrict q) {
  MAKAR_VECTORIZED
  for (int i = 0; i < 32; ++i) q[i] = static_cast<int8_t>(from[i] & 15);
  MAKAR_VECTORIZED
  for (int i = 0; i < 32; ++i) q[i + 32] = static_cast<int8_t>(from[i] >> 4);
}

template <class Block>
MAKAR_INLINE void split_k(const Block& b, SplitBlock& o) {
  for (int part = 0; part < 8; ++part) {
    const ScaleMin s = scale_min(b.scales, part);
    o.scales[part] = s.scale, o.part_mins[part] = s.min;
  }
  for (int pair = 0; pair < 4; ++pair) halves(b.qs + pair * 32, o.q + pair * 64);
  o.d = b.d.bits(), o.min = negated(b.dmin.bits());
}
MAKAR_INLINE void split(const BlockQ4_K& b, SplitBlock& o) { split_k(b, o); }
MAKAR_INLINE void split(const BlockQ5_K& b, SplitBlock& o) {
  split_k(b, o);
  uint8_t qh[32];
  std::memcpy(qh, b.qh, 32);
  for (int part = 0; part < 8; ++part)
    for (int i = 0; i < 32; ++i)
      o.q[part * 32 + i] = static_cast<int8_t>(o.q[part * 32 + i] | (qh[i] >> part & 1) << 4);
}

MAKAR_INLINE void split(const BlockQ6_K& b, SplitBlock& o) {
  for (int run = 0; run < 8; ++run) {
    const int half = run / 4, quarter = run % 4, low_shift = quarter / 2 * 4, high_shift = quarter * 2;
    uint8_t low[32], high[32];
    std::memcpy(low, b.ql + half * 64 + quarter % 2 * 32, 32);
    std::memcpy(high, b.qh + half * 32, 32);
    for (int i = 0; i < 32; ++i)
      o.q[run * 32 + i] =
          static_cast<int8_t>(((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32);
  }
  for (int part = 0; part < 16; ++part) o.scales[part] = static_cast<uint8_t>(b.scales[part] + kScaleBias);
  o.d = b.d.bits();
}

MAKAR_INLINE void split(const BlockIQ4_XS& b, SplitBlock& o) {
  const int high = b.scales_h[0] | b.scales_h[1] << 8;
  for (int part = 0; part < 8; ++part) {
    const int scale = (b.scales_l[part / 2] >> (part % 2 * 4) & 15) | (high >> (part * 2) & 3) << 4;
    o.scales[part] = static_cast<uint8_t>(scale - 32 + kScaleBias);
    nibbles(b.qs + part * 16, 0, o.q + part * 32);
  }
  o.d = b.d.bits();
}

// d (0.5 + s) / 4 = d (2 s + 1) / 8: the unit of the type is 8.
MAKAR_INLINE void split(const BlockIQ2_XXS& b, SplitBlock& o) {
  for (int part = 0; part < 8; ++part) {
    const uint8_t* q = b.qs + part * 8;
    const uint32_t signs_and_scale = little32(q + 4);
    o.scales[part] = static_cast<uint8_t>(2 * (signs_and_scale >> 28) + 1 + kScaleBias);
    for (int k = 0; k < 4; ++k) {
      const uint32_t stored_signs = signs_and_scale >> (7 * k) & 127, codes = iq2_xxs_grid(q[k]);
      const uint32_t signs = stored_signs | (std::popcount(stored_signs) & 1u) << 7;
      for (int i = 0; i < 8; ++i)
        o.q[part * 32 + k * 8 + i] = static_cast<int8_t>((codes >> (2 * i) & 3) | (signs >> i & 1) << 2);
    }
  }
  o.d = b.d.bits();
}

#undef MAKAR_VECTORIZED

}  // namespace makar::kernels
