// Quantizes activations to int8 in blocks of 64 k: scale d = absmax / 127, value = x * (127 / absmax),
// rounded once to nearest, ties to even. For 16-bit weights, 32512 replaces 127, and a value is 256 high +
// low, one byte each. A row's values depend on that row only. A block with an infinity or a NaN gets the
// scale NaN, which propagates to the result; a block with all magnitudes below 2^-100 becomes zero.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/cpu/isa/quant_lanes.h"
#include "kernels/cpu/isa/sections.h"
#include "kernels/cpu/quant_form.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

constexpr uint32_t kInfinity = 0x7f800000u, kTiny = 0x0d800000u;  // 2^-100
constexpr float kRound = 0x1.8p23f;  // adding it leaves the integer in the low bits, rounded to even
constexpr int32_t kSeedBits = std::bit_cast<int32_t>(kRound);
constexpr int kBlocksTogether = 8;  // blocks whose scales are computed before their values

// The bits of the largest magnitude.
inline uint32_t absmax(const float* x) {
#if defined(MAKAR_ISA_avx512vnni)
  const auto bits = [&](int k) {
    return _mm512_and_si512(_mm512_loadu_si512(x + k), _mm512_set1_epi32(0x7fffffff));
  };
  return _mm512_reduce_max_epu32(
      _mm512_max_epu32(_mm512_max_epu32(bits(0), bits(16)), _mm512_max_epu32(bits(32), bits(48))));
#else
  constexpr int kLanes = 16;
  uint32_t max[kLanes] = {};
  for (int k = 0; k < kQuantBlock; k += kLanes)
    for (int i = 0; i < kLanes; ++i)
      max[i] = std::max(max[i], std::bit_cast<uint32_t>(x[k + i]) & 0x7fffffffu);
  return *std::max_element(max, max + kLanes);
#endif
}

// Quantizes 16 values to 16 bits, stored as high bytes and low bytes.
inline void quantize_16_to_int16(const float* x, float inverse, int8_t* high, int8_t* low) {
#if defined(MAKAR_ISA_neon)
  int8x8_t high_bytes[2];
  uint8x16_t words[2];
  for (int i = 0; i < 2; ++i) {
    const Floats a = vfmaq_n_f32(vdupq_n_f32(kRound), vld1q_f32(x + i * 8), inverse),
                 b = vfmaq_n_f32(vdupq_n_f32(kRound), vld1q_f32(x + i * 8 + 4), inverse);
    const uint16x8_t v = vuzp1q_u16(vreinterpretq_u16_f32(a), vreinterpretq_u16_f32(b));
    high_bytes[i] = vrshrn_n_s16(vreinterpretq_s16_u16(v), 8);
    words[i] = vreinterpretq_u8_u16(v);
  }
  vst1q_s8(high, vcombine_s8(high_bytes[0], high_bytes[1]));
  vst1q_s8(low, vreinterpretq_s8_u8(vuzp1q_u8(words[0], words[1])));
#else
  for (int i = 0; i < 16; ++i) {
    const uint32_t v = std::bit_cast<uint32_t>(std::fma(x[i], inverse, kRound));
    high[i] = static_cast<int8_t>((v + 128) >> 8), low[i] = static_cast<int8_t>(v);
  }
#endif
}

// Quantizes 16 values to 8 bits.
inline void quantize_16_to_int8(const float* x, float inverse, int8_t* q) {
#if defined(MAKAR_ISA_neon)
  uint16x8_t half[2];
  for (int i = 0; i < 2; ++i) {
    const Floats a = vfmaq_n_f32(vdupq_n_f32(kRound), vld1q_f32(x + i * 8), inverse),
                 b = vfmaq_n_f32(vdupq_n_f32(kRound), vld1q_f32(x + i * 8 + 4), inverse);
    half[i] = vuzp1q_u16(vreinterpretq_u16_f32(a), vreinterpretq_u16_f32(b));
  }
  vst1q_s8(q, vreinterpretq_s8_u8(vuzp1q_u8(vreinterpretq_u8_u16(half[0]), vreinterpretq_u8_u16(half[1]))));
#elif defined(MAKAR_ISA_avx512vnni)
  const Floats v = fma(load_floats(x), inverse, all_floats(kRound));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm512_cvtepi32_epi8(_mm512_castps_si512(v)));
#else
  for (int i = 0; i < 16; ++i)
    q[i] = static_cast<int8_t>(std::bit_cast<uint32_t>(std::fma(x[i], inverse, kRound)));
#endif
}

inline int32_t sum_of(const int8_t* q) {  // of 16 values
#if defined(MAKAR_ISA_neon)
  return vaddvq_s32(vdotq_s32(vdupq_n_s32(0), vld1q_s8(q), vdupq_n_s8(1)));
#elif defined(__x86_64__) && !defined(MAKAR_ISA_portable)
  const __m128i biased =
      _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q)), _mm_set1_epi8(-128));
  const __m128i sums = _mm_sad_epu8(biased, _mm_setzero_si128());
  return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128;
#else
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += q[i];
  return sum;
#endif
}

struct Block {
  const float* x;
  int8_t* q;
  float* d;  // the scale, then the sums; `rows` floats apart
};

void quantize_int16_block(const Block& b, float inverse, int rows) {
  int8_t *high = b.q, *low = high + rows * kQuantBlock;
  int32_t high_sum = 0, low_sum = 0;
  for (int k = 0; k < kQuantBlock; k += kQuantRun) {
    if (inverse == 0.0f)
      std::memset(high + k, 0, kQuantRun), std::memset(low + k, 0, kQuantRun);
    else
      quantize_16_to_int16(b.x + k, inverse, high + k, low + k);
    if (kQuantInitialSums) high_sum += sum_of(high + k), low_sum += sum_of(low + k);
  }
  if (!kQuantInitialSums) return;
  b.d[rows] = std::bit_cast<float>(-128 * high_sum);
  b.d[2 * rows] = std::bit_cast<float>(-128 * (high_sum + low_sum));
}

void quantize_blocks(const QuantForm& f, int unit, int rows, const Block* blocks, int count) {
  const bool int16 = f.values == QuantValues::kInt16;
  const float levels = int16 ? 127.0f * 256.0f : 127.0f;
  float inverse[kBlocksTogether];
  for (int i = 0; i < count; ++i) {
    const uint32_t max = absmax(blocks[i].x);
    const bool normal = max < kInfinity && max >= kTiny;
    const float magnitude = normal ? std::bit_cast<float>(max) : 1.0f;
    inverse[i] = normal ? levels / magnitude : 0.0f;
    const float special = max >= kInfinity ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
    *blocks[i].d =
        normal ? magnitude / levels / static_cast<float>(unit) : special;  // unit is a power of two
  }
  for (int i = 0; i < count; ++i) {
    if (int16) {
      quantize_int16_block(blocks[i], inverse[i], rows);
      continue;
    }
    int32_t sum[kQuantBlock / kQuantRun] = {};
    if (inverse[i] == 0.0f)
      std::memset(blocks[i].q, 0, kQuantBlock);
    else
      for (int run = 0; run < kQuantBlock / kQuantRun; ++run) {
        int8_t* q = blocks[i].q + run * kQuantRun;
        quantize_16_to_int8(blocks[i].x + run * kQuantRun, inverse[i], q);
        if (f.mins || kQuantInitialSums) sum[run] = sum_of(q);
      }
    for (int run = 0; run < kQuantBlock / kQuantRun && (f.mins || kQuantInitialSums);
         run += f.part / kQuantRun) {
      const int32_t part_sum = f.part == kQuantRun ? sum[run] : sum[run] + sum[run + 1];
      blocks[i].d[(1 + run * kQuantRun / f.part) * rows] =
          f.mins ? static_cast<float>(part_sum * unit) : std::bit_cast<float>(kSeedBits - 128 * part_sum);
    }
  }
}

void quant_rows(int form, int unit, const float* x, int64_t row_stride, int rows, int64_t k, int64_t blocks,
                void* out) {
  const QuantForm& f = kQuantForms[form];
  const int64_t step = activation_bytes(f, rows, kQuantInitialSums);
  auto* to = static_cast<std::byte*>(out);
  Block pending[kBlocksTogether];
  int count = 0;
  float padded[kQuantTile][kQuantBlock];  // the last block, if k does not fill it
  for (int64_t b = 0; b < blocks; ++b, to += step) {
    const int64_t remaining = std::max<int64_t>(k - b * kQuantBlock, 0);
    for (int i = 0; i < rows; ++i) {
      const float* from = x + i * row_stride + (k - remaining);
      if (remaining < kQuantBlock) {
        std::fill_n(std::copy_n(from, remaining, padded[i]), kQuantBlock - remaining, 0.0f);
        from = padded[i];
      }
      pending[count++] = {from, reinterpret_cast<int8_t*>(to) + i * kQuantBlock,
                          reinterpret_cast<float*>(to + rows * activation_values(f)) + i};
      if (count == kBlocksTogether) quantize_blocks(f, unit, rows, pending, std::exchange(count, 0));
    }
  }
  quantize_blocks(f, unit, rows, pending, count);
}

}  // namespace

void fill_quant_rows(Table& table) { table.quant_rows = quant_rows; }

}  // namespace makar::kernels::MAKAR_ISA
