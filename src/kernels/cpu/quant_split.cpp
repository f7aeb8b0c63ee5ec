#include "kernels/cpu/quant_split.h"

#include <bit>

#include "base/error.h"
#include "kernels/block_layout.h"
#include "kernels/cpu/quant_form.h"
#include "kernels/decode_blocks.h"

namespace makar::kernels {
namespace {

constexpr int kBias = 128;  // added to stored scales in forms without mins
// The codebook of IQ2_XXS: the code of the grid, plus 4 for a minus sign.
constexpr int8_t kIq2Book[16] = {8, 25, 43, 0, -8, -25, -43, 0, 0, 0, 0, 0, 0, 0, 0, 0};

constexpr uint16_t negated(uint16_t half) { return half ^ 0x8000u; }

inline void nibbles(const uint8_t* from, int offset, int8_t* q) {
  uint8_t qs[16];
  std::memcpy(qs, from,
              16);  // byte pointers may alias: a copy lets the compiler assume that the values do not change
  for (int j = 0; j < 16; ++j) {
    q[j] = static_cast<int8_t>((qs[j] & 15) - offset);
    q[j + 16] = static_cast<int8_t>((qs[j] >> 4) - offset);
  }
}
void five_bits(const uint8_t* qs, const uint8_t* qh, int offset, int8_t* q) {
  const uint32_t high = little32(qh);
  nibbles(qs, offset, q);
  for (int j = 0; j < 32; ++j) q[j] = static_cast<int8_t>(q[j] + static_cast<int>((high >> j & 1) << 4));
}

void split(const BlockQ8_0& b, SplitBlock& o) { std::memcpy(o.q, b.qs, 32), o.d = b.d.bits(); }
void split(const BlockQ8_24& b, SplitBlock& o) {
  int8_t q[32];
  b.dense(q);
  std::memcpy(o.q, q, 32), o.d = b.d.bits();
}
void split(const BlockQ4_0& b, SplitBlock& o) { nibbles(b.qs, 8, o.q), o.d = b.d.bits(); }
void split(const BlockIQ4_NL& b, SplitBlock& o) { nibbles(b.qs, 0, o.q), o.d = b.d.bits(); }
void split(const BlockQ4_1& b, SplitBlock& o) { nibbles(b.qs, 0, o.q), o.d = b.d.bits(), o.min = b.m.bits(); }
void split(const BlockQ5_0& b, SplitBlock& o) { five_bits(b.qs, b.qh, 16, o.q), o.d = b.d.bits(); }
void split(const BlockQ5_1& b, SplitBlock& o) {
  five_bits(b.qs, b.qh, 0, o.q), o.d = b.d.bits(), o.min = b.m.bits();
}

void split(const BlockQ2_K& b, SplitBlock& o) {
  for (int part = 0; part < 16; ++part) {
    const uint8_t* q = b.qs + part / 8 * 32 + part % 2 * 16;
    const int shift = part % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) o.q[part * 16 + i] = static_cast<int8_t>(q[i] >> shift & 3);
    o.scales[part] = b.scales[part] & 15, o.part_mins[part] = b.scales[part] >> 4;
  }
  o.d = b.d.bits(), o.min = negated(b.dmin.bits());
}

void split(const BlockQ3_K& b, SplitBlock& o) {
  for (int part = 0; part < 16; ++part) {
    const int at = part % 2 * 16, shift = part % 8 / 2 * 2, bit = part / 2;
    const uint8_t* q = b.qs + part / 8 * 32 + at;
    for (int i = 0; i < 16; ++i)
      o.q[part * 16 + i] = static_cast<int8_t>((q[i] >> shift & 3) + (b.hmask[at + i] >> bit & 1) * 4 - 4);
    const int low = part < 8 ? b.scales[part] & 15 : b.scales[part - 8] >> 4;
    const int scale = (low | (b.scales[8 + part % 4] >> (part / 4 * 2) & 3) << 4) - 32;
    o.scales[part] = static_cast<uint8_t>(scale + kBias);
  }
  o.d = b.d.bits();
}

// 32 bytes: their low nibbles, then their high nibbles.
inline void halves(const uint8_t* __restrict from, int8_t* __restrict q) {
#pragma clang loop unroll(disable) vectorize(enable)
  for (int i = 0; i < 32; ++i) q[i] = static_cast<int8_t>(from[i] & 15);
#pragma clang loop unroll(disable) vectorize(enable)
  for (int i = 0; i < 32; ++i) q[i + 32] = static_cast<int8_t>(from[i] >> 4);
}

template <class Block>
void split_k(const Block& b, SplitBlock& o) {
  for (int part = 0; part < 8; ++part) {
    const ScaleMin s = scale_min(b.scales, part);
    o.scales[part] = s.scale, o.part_mins[part] = s.min;
  }
  for (int pair = 0; pair < 4; ++pair) halves(b.qs + pair * 32, o.q + pair * 64);
  o.d = b.d.bits(), o.min = negated(b.dmin.bits());
}
void split(const BlockQ4_K& b, SplitBlock& o) { split_k(b, o); }
void split(const BlockQ5_K& b, SplitBlock& o) {
  split_k(b, o);
  uint8_t qh[32];
  std::memcpy(qh, b.qh, 32);
  for (int part = 0; part < 8; ++part)
    for (int i = 0; i < 32; ++i)
      o.q[part * 32 + i] = static_cast<int8_t>(o.q[part * 32 + i] | (qh[i] >> part & 1) << 4);
}

void split(const BlockQ6_K& b, SplitBlock& o) {
  for (int run = 0; run < 8; ++run) {
    const int half = run / 4, quarter = run % 4, low_shift = quarter / 2 * 4, high_shift = quarter * 2;
    uint8_t low[32], high[32];
    std::memcpy(low, b.ql + half * 64 + quarter % 2 * 32, 32);
    std::memcpy(high, b.qh + half * 32, 32);
    for (int i = 0; i < 32; ++i)
      o.q[run * 32 + i] =
          static_cast<int8_t>(((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32);
  }
  for (int part = 0; part < 16; ++part) o.scales[part] = static_cast<uint8_t>(b.scales[part] + kBias);
  o.d = b.d.bits();
}

void split(const BlockIQ4_XS& b, SplitBlock& o) {
  const int high = b.scales_h[0] | b.scales_h[1] << 8;
  for (int part = 0; part < 8; ++part) {
    const int scale = (b.scales_l[part / 2] >> (part % 2 * 4) & 15) | (high >> (part * 2) & 3) << 4;
    o.scales[part] = static_cast<uint8_t>(scale - 32 + kBias);
    nibbles(b.qs + part * 16, 0, o.q + part * 32);
  }
  o.d = b.d.bits();
}

// d (0.5 + s) / 4 = d (2 s + 1) / 8: the unit of the type is 8.
void split(const BlockIQ2_XXS& b, SplitBlock& o) {
  for (int part = 0; part < 8; ++part) {
    const uint8_t* q = b.qs + part * 8;
    const uint32_t signs_and_scale = little32(q + 4);
    o.scales[part] = static_cast<uint8_t>(2 * (signs_and_scale >> 28) + 1 + kBias);
    for (int k = 0; k < 4; ++k) {
      const uint32_t stored_signs = signs_and_scale >> (7 * k) & 127, codes = iq2_xxs_grid(q[k]);
      const uint32_t signs = stored_signs | (std::popcount(stored_signs) & 1u) << 7;
      for (int i = 0; i < 8; ++i)
        o.q[part * 32 + k * 8 + i] = static_cast<int8_t>((codes >> (2 * i) & 3) | (signs >> i & 1) << 2);
    }
  }
  o.d = b.d.bits();
}

// 64 weights as integers with one power-of-two scale: weights of at least 1/16 of the largest keep all bits;
// the others lose the bits below 2^-16 of the largest. High bytes first, then low ones.
void split(const BlockF16_64& b, SplitBlock& o) {
  constexpr int kCount = 64, kMax = 127 * 256 + 127;
  uint16_t bits[kCount];
  std::memcpy(bits, b.values, sizeof bits);
  uint16_t max = 0;
  for (const uint16_t w : bits) max = std::max<uint16_t>(max, w & 0x7fffu);
  std::memset(o.q, 0, 2 * kCount);
  if (max >= 0x7c00u || max == 0) {  // an infinity or a NaN must propagate to the result
    o.d = max ? 0x7e00u : 0;
    return;
  }
  const int exponent = std::max(max >> 10, 1);  // 2^(exponent - 15) <= the largest, unless it is subnormal
  const int largest = ((max & 1023) | (max >= 1024 ? 1024 : 0)) << 4;
  const int shift_bits = largest > kMax ? 13 : 14;
  const float scale = std::bit_cast<float>(static_cast<uint32_t>(127 + shift_bits + 15 - exponent) << 23);
  for (int i = 0; i < kCount; ++i) {
    const uint32_t w = bits[i];
    const float small = std::bit_cast<float>((w & 0x7fffu) << 13 | (w & 0x8000u) << 16);  // w 2^-112
    const uint32_t v = std::bit_cast<uint32_t>(small * 0x1p112f * scale + 0x1.8p23f);
    o.q[i] = static_cast<int8_t>((v + 128) >> 8);
    o.q[kCount + i] = static_cast<int8_t>(v);
  }
  o.d = to_f16(std::bit_cast<float>(static_cast<uint32_t>(127 - shift_bits - 15 + exponent + 12) << 23));
}

template <class Block>
void split_as(const void* block, SplitBlock& out) {
  split(*static_cast<const Block*>(block), out);
}

}  // namespace

SplitBlockFn split_block_of(DType type) {
  switch (type) {
    case DType::kQ4_0:
      return split_as<BlockQ4_0>;
    case DType::kQ4_1:
      return split_as<BlockQ4_1>;
    case DType::kQ5_0:
      return split_as<BlockQ5_0>;
    case DType::kQ5_1:
      return split_as<BlockQ5_1>;
    case DType::kQ8_0:
      return split_as<BlockQ8_0>;
    case DType::kQ8_24:
      return split_as<BlockQ8_24>;
    case DType::kQ2_K:
      return split_as<BlockQ2_K>;
    case DType::kQ3_K:
      return split_as<BlockQ3_K>;
    case DType::kQ4_K:
      return split_as<BlockQ4_K>;
    case DType::kQ5_K:
      return split_as<BlockQ5_K>;
    case DType::kQ6_K:
      return split_as<BlockQ6_K>;
    case DType::kIQ4_NL:
      return split_as<BlockIQ4_NL>;
    case DType::kIQ4_XS:
      return split_as<BlockIQ4_XS>;
    case DType::kIQ2_XXS:
      return split_as<BlockIQ2_XXS>;
    case DType::kF16_64:
      return split_as<BlockF16_64>;
    default:
      check(false, "not a block type: " + name(type));
  }
  return nullptr;
}

QuantStorage storage_of(DType type) {
  const auto storage = [](int form) { return QuantStorage{form, unit_of(kQuantForms[form]), kIq4Values}; };
  switch (type) {
    case DType::kQ4_0:
      return storage(kFormSigned4);
    case DType::kQ4_1:
      return storage(kFormUnsigned4Min);
    case DType::kQ5_0:
      return storage(kFormInt6);
    case DType::kQ5_1:
      return storage(kFormInt6Min);
    case DType::kQ8_0:
      return storage(kFormInt8);
    case DType::kQ8_24:
      return storage(kFormSparse8);
    case DType::kQ2_K:
      return storage(kFormSuperUnsigned2Min16);
    case DType::kQ3_K:
      return storage(kFormSuperSigned4);
    case DType::kQ4_K:
      return storage(kFormSuperUnsigned4Min);
    case DType::kQ5_K:
      return storage(kFormSuperInt6Min);
    case DType::kQ6_K:
      return storage(kFormSuperInt8);
    case DType::kIQ4_NL:
      return storage(kFormBook4);
    case DType::kIQ4_XS:
      return storage(kFormSuperBook4);
    case DType::kF16_64:
      return storage(kFormInt16);
    case DType::kIQ2_XXS:
      return {kFormSuperBook4, 8, kIq2Book};
    default:
      check(false, "not a block type: " + name(type));
  }
  return {};
}

}  // namespace makar::kernels
