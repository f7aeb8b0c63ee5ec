// Quantises activations to int8 in blocks of 64 k: scale d = absmax / 127, value = x * (127 / absmax),
// rounded once to nearest, ties to even. For 16-bit weights, 32512 replaces 127, and a value is 256 high +
// low, one byte each. A row's values depend on that row only. A block with an infinity or a NaN gets the
// scale NaN, which propagates to the result; a block with all magnitudes below 2^-100 becomes zero.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/cpu/isa/parts.h"
#include "kernels/cpu/isa/quant_lanes.h"
#include "kernels/cpu/quant_form.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

constexpr uint32_t kInfinity = 0x7f800000u, kTiny = 0x0d800000u;  // 2^-100
constexpr float kRound = 0x1.8p23f;  // adding it leaves the integer in the low bits, rounded to even
constexpr int kTogether = 8;         // blocks whose scales are computed before their values

// The bits of the largest magnitude.
inline uint32_t absmax(const float* x) {
  constexpr int kLanes = 16;
  uint32_t most[kLanes] = {};
  for (int k = 0; k < kQuantBlock; k += kLanes)
    for (int i = 0; i < kLanes; ++i)
      most[i] = std::max(most[i], std::bit_cast<uint32_t>(x[k + i]) & 0x7fffffffu);
  return *std::max_element(most, most + kLanes);
}

// 16 values of 16 bits: their high bytes and their low bytes.
struct TwoBytes {
  Bytes high, low;
};
inline TwoBytes sixteen_wide(const float* x, float inverse) {
#if defined(MAKAR_ISA_neon)
  int8x8_t high[2];
  uint8x16_t words[2];
  for (int i = 0; i < 2; ++i) {
    const Floats a = vfmaq_n_f32(vdupq_n_f32(kRound), vld1q_f32(x + i * 8), inverse),
                 b = vfmaq_n_f32(vdupq_n_f32(kRound), vld1q_f32(x + i * 8 + 4), inverse);
    const uint16x8_t v = vuzp1q_u16(vreinterpretq_u16_f32(a), vreinterpretq_u16_f32(b));
    high[i] = vrshrn_n_s16(vreinterpretq_s16_u16(v), 8);
    words[i] = vreinterpretq_u8_u16(v);
  }
  return {vcombine_s8(high[0], high[1]), vreinterpretq_s8_u8(vuzp1q_u8(words[0], words[1]))};
#else
  alignas(16) int8_t high[16], low[16];
  for (int i = 0; i < 16; ++i) {
    const uint32_t v = std::bit_cast<uint32_t>(std::fma(x[i], inverse, kRound));
    high[i] = static_cast<int8_t>((v + 128) >> 8), low[i] = static_cast<int8_t>(v);
  }
  return {load_bytes(reinterpret_cast<const std::byte*>(high)),
          load_bytes(reinterpret_cast<const std::byte*>(low))};
#endif
}

// Quantises 16 values.
inline Bytes sixteen(const float* x, float inverse) {
#if defined(MAKAR_ISA_neon)
  uint16x8_t half[2];
  for (int i = 0; i < 2; ++i) {
    const Floats a = vfmaq_n_f32(vdupq_n_f32(kRound), vld1q_f32(x + i * 8), inverse),
                 b = vfmaq_n_f32(vdupq_n_f32(kRound), vld1q_f32(x + i * 8 + 4), inverse);
    half[i] = vuzp1q_u16(vreinterpretq_u16_f32(a), vreinterpretq_u16_f32(b));
  }
  return vreinterpretq_s8_u8(vuzp1q_u8(vreinterpretq_u8_u16(half[0]), vreinterpretq_u8_u16(half[1])));
#else
  alignas(16) int8_t q[16];
  for (int i = 0; i < 16; ++i)
    q[i] = static_cast<int8_t>(std::bit_cast<uint32_t>(std::fma(x[i], inverse, kRound)));
  return load_bytes(reinterpret_cast<const std::byte*>(q));
#endif
}

inline int32_t sum_of(Bytes x) {
#if defined(MAKAR_ISA_neon)
  return vaddvq_s32(vdotq_s32(vdupq_n_s32(0), x, vdupq_n_s8(1)));
#else
  int8_t q[16];
  store_bytes(reinterpret_cast<std::byte*>(q), x);
  int32_t sum = 0;
  for (const int8_t v : q) sum += v;
  return sum;
#endif
}

struct Block {
  const float* x;
  int8_t* q;
  float* d;  // the scale, then the sums; `rows` floats apart
};

void wide_block(const Block& b, float inverse, int rows) {
  auto* high = reinterpret_cast<std::byte*>(b.q);
  std::byte* low = high + rows * kQuantBlock;
  if (inverse == 0.0f) {
    std::memset(high, 0, kQuantBlock), std::memset(low, 0, kQuantBlock);
    return;
  }
  for (int k = 0; k < kQuantBlock; k += kQuantRun) {
    const TwoBytes q = sixteen_wide(b.x + k, inverse);
    store_bytes(high + k, q.high), store_bytes(low + k, q.low);
  }
}

void some_blocks(const QuantForm& f, int unit, int rows, const Block* blocks, int count) {
  const bool wide = f.values == QuantValues::kInt16;
  const float levels = wide ? 127.0f * 256.0f : 127.0f;
  float inverse[kTogether];
  for (int i = 0; i < count; ++i) {
    const uint32_t most = absmax(blocks[i].x);
    const bool plain = most < kInfinity && most >= kTiny;
    const float size = plain ? std::bit_cast<float>(most) : 1.0f;
    inverse[i] = plain ? levels / size : 0.0f;
    const float odd = most >= kInfinity ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
    *blocks[i].d = plain ? size / levels / static_cast<float>(unit) : odd;  // unit is a power of two
  }
  for (int i = 0; i < count; ++i) {
    int32_t sum[kQuantBlock / kQuantRun] = {};
    if (wide) {
      wide_block(blocks[i], inverse[i], rows);
      continue;
    }
    if (inverse[i] == 0.0f)
      std::memset(blocks[i].q, 0, kQuantBlock);
    else
      for (int run = 0; run < kQuantBlock / kQuantRun; ++run) {
        const Bytes q = sixteen(blocks[i].x + run * kQuantRun, inverse[i]);
        store_bytes(reinterpret_cast<std::byte*>(blocks[i].q) + run * kQuantRun, q);
        if (f.mins) sum[run] = sum_of(q);
      }
    for (int run = 0; run < kQuantBlock / kQuantRun && f.mins; run += f.part / kQuantRun) {
      const int32_t whole = f.part == kQuantRun ? sum[run] : sum[run] + sum[run + 1];
      blocks[i].d[(1 + run * kQuantRun / f.part) * rows] = static_cast<float>(whole * unit);
    }
  }
}

void quant_rows(int form, int unit, const float* x, int64_t row_stride, int rows, int64_t k, int64_t blocks,
                void* out) {
  const QuantForm& f = kQuantForms[form];
  const int64_t step = activation_bytes(f, rows);
  auto* to = static_cast<std::byte*>(out);
  Block some[kTogether];
  int count = 0;
  float rest[kQuantRows][kQuantBlock];  // the last block, if k does not fill it
  for (int64_t b = 0; b < blocks; ++b, to += step) {
    const int64_t left = std::max<int64_t>(k - b * kQuantBlock, 0);
    for (int i = 0; i < rows; ++i) {
      const float* from = x + i * row_stride + (k - left);
      if (left < kQuantBlock) {
        std::fill_n(std::copy_n(from, left, rest[i]), kQuantBlock - left, 0.0f);
        from = rest[i];
      }
      some[count++] = {from, reinterpret_cast<int8_t*>(to) + i * kQuantBlock,
                       reinterpret_cast<float*>(to + rows * activation_values(f)) + i};
      if (count == kTogether) some_blocks(f, unit, rows, some, std::exchange(count, 0));
    }
  }
  some_blocks(f, unit, rows, some, count);
}

}  // namespace

void fill_quant_rows(Table& table) { table.quant_rows = quant_rows; }

}  // namespace makar::kernels::MAKAR_ISA
