#include "kernels/decode_blocks.h"

#include <bit>

#include "base/error.h"
#include "kernels/block_layout.h"

namespace makar::kernels {
namespace {

void decode(const BlockQ4_0& b, float* y) {
  const float d = b.d.value();
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>((b.qs[j] & 15) - 8) * d;
    y[j + 16] = static_cast<float>((b.qs[j] >> 4) - 8) * d;
  }
}

void decode(const BlockQ4_1& b, float* y) {
  const float d = b.d.value(), m = b.m.value();
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(b.qs[j] & 15) * d + m;
    y[j + 16] = static_cast<float>(b.qs[j] >> 4) * d + m;
  }
}

void decode(const BlockQ5_0& b, float* y) {
  const float d = b.d.value();
  const uint32_t high = little32(b.qh);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(static_cast<int>((b.qs[j] & 15) | (high >> j & 1) << 4) - 16) * d;
    y[j + 16] = static_cast<float>(static_cast<int>((b.qs[j] >> 4) | (high >> (j + 16) & 1) << 4) - 16) * d;
  }
}

void decode(const BlockQ5_1& b, float* y) {
  const float d = b.d.value(), m = b.m.value();
  const uint32_t high = little32(b.qh);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>((b.qs[j] & 15) | (high >> j & 1) << 4) * d + m;
    y[j + 16] = static_cast<float>((b.qs[j] >> 4) | (high >> (j + 16) & 1) << 4) * d + m;
  }
}

void decode(const BlockQ8_0& b, float* y) {
  const float d = b.d.value();
  for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(b.qs[j]) * d;
}

void decode(const BlockQ8_24& b, float* y) {
  const float d = b.d.value();
  int8_t q[32];
  b.dense(q);
  for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(q[j]) * d;
}

void decode(const BlockIQ4_NL& b, float* y) {
  const float d = b.d.value();
  for (int j = 0; j < 16; ++j) {
    y[j] = d * static_cast<float>(kIq4Values[b.qs[j] & 15]);
    y[j + 16] = d * static_cast<float>(kIq4Values[b.qs[j] >> 4]);
  }
}

// Sub-blocks of 16. Each half of 128 values is stored in 32 bytes, with two bits of every byte per run of 32
// values.
void decode(const BlockQ2_K& b, float* y) {
  const float d = b.d.value(), dmin = b.dmin.value();
  for (int part = 0; part < 16; ++part) {
    const uint8_t* q = b.qs + part / 8 * 32 + part % 2 * 16;
    const int shift = part % 8 / 2 * 2;
    const float scale = d * static_cast<float>(b.scales[part] & 15);
    const float min = dmin * static_cast<float>(b.scales[part] >> 4);
    for (int i = 0; i < 16; ++i) *y++ = scale * static_cast<float>(q[i] >> shift & 3) - min;
  }
}

// The scale of a sub-block: four low bits in bytes 0..7, two high bits in bytes 8..11.
int scale_q3(const uint8_t* s, int part) {
  const int low = part < 8 ? s[part] & 15 : s[part - 8] >> 4;
  return (low | (s[8 + part % 4] >> (part / 4 * 2) & 3) << 4) - 32;
}

void decode(const BlockQ3_K& b, float* y) {
  const float d = b.d.value();
  for (int part = 0; part < 16; ++part) {
    const int at = part % 2 * 16, shift = part % 8 / 2 * 2, bit = part / 2;
    const uint8_t* q = b.qs + part / 8 * 32 + at;
    const float scale = d * static_cast<float>(scale_q3(b.scales, part));
    for (int i = 0; i < 16; ++i)
      *y++ = scale * static_cast<float>((q[i] >> shift & 3) - (b.hmask[at + i] >> bit & 1 ? 0 : 4));
  }
}

void decode(const BlockQ4_K& b, float* y) {
  const float d = b.d.value(), dmin = b.dmin.value();
  for (int part = 0; part < 8; ++part) {
    const ScaleMin s = scale_min(b.scales, part);
    const float scale = d * static_cast<float>(s.scale), min = dmin * static_cast<float>(s.min);
    const uint8_t* q = b.qs + part / 2 * 32;
    const int shift = part % 2 * 4;
    for (int i = 0; i < 32; ++i) *y++ = scale * static_cast<float>(q[i] >> shift & 15) - min;
  }
}

void decode(const BlockQ5_K& b, float* y) {
  const float d = b.d.value(), dmin = b.dmin.value();
  for (int part = 0; part < 8; ++part) {
    const ScaleMin s = scale_min(b.scales, part);
    const float scale = d * static_cast<float>(s.scale), min = dmin * static_cast<float>(s.min);
    const uint8_t* q = b.qs + part / 2 * 32;
    const int shift = part % 2 * 4;
    for (int i = 0; i < 32; ++i)
      *y++ = scale * static_cast<float>((q[i] >> shift & 15) | (b.qh[i] >> part & 1) << 4) - min;
  }
}

void decode(const BlockQ6_K& b, float* y) {
  const float d = b.d.value();
  for (int run = 0; run < 8; ++run) {  // runs of 32 values, two scales per run
    const int half = run / 4, quarter = run % 4;
    const uint8_t* low = b.ql + half * 64 + quarter % 2 * 32;
    const uint8_t* high = b.qh + half * 32;
    for (int i = 0; i < 32; ++i) {
      const int q = (low[i] >> (quarter / 2 * 4) & 15) | (high[i] >> (quarter * 2) & 3) << 4;
      const int scale = b.scales[run * 2 + i / 16];
      *y++ = d * static_cast<float>(scale) * static_cast<float>(q - 32);
    }
  }
}

void decode(const BlockIQ4_XS& b, float* y) {
  const float d = b.d.value();
  const int high = b.scales_h[0] | b.scales_h[1] << 8;
  for (int part = 0; part < 8; ++part) {
    const int scale = (b.scales_l[part / 2] >> (part % 2 * 4) & 15) | (high >> (part * 2) & 3) << 4;
    const float dl = d * static_cast<float>(scale - 32);
    for (int j = 0; j < 16; ++j) {
      y[j] = dl * static_cast<float>(kIq4Values[b.qs[part * 16 + j] & 15]);
      y[j + 16] = dl * static_cast<float>(kIq4Values[b.qs[part * 16 + j] >> 4]);
    }
    y += 32;
  }
}

void decode(const BlockIQ2_XXS& b, float* y) {
  constexpr float kLevels[4] = {8, 25, 43, 0};
  const float d = b.d.value();
  for (int part = 0; part < 8; ++part) {
    const uint8_t* q = b.qs + part * 8;
    const uint32_t signs_and_scale = little32(q + 4);
    const float scale = d * (0.5f + static_cast<float>(signs_and_scale >> 28)) * 0.25f;
    for (int k = 0; k < 4; ++k) {
      // Seven signs are stored; the eighth makes the number of minus signs even.
      const uint32_t stored_signs = signs_and_scale >> (7 * k) & 127;
      const uint32_t signs = stored_signs | (std::popcount(stored_signs) & 1u) << 7;
      const uint32_t codes = iq2_xxs_grid(q[k]);
      for (int i = 0; i < 8; ++i)
        *y++ = scale * kLevels[codes >> (2 * i) & 3] * (signs >> i & 1 ? -1.0f : 1.0f);
    }
  }
}

template <class Block>
void decode_all(const void* blocks, int64_t count, float* out, int64_t elements) {
  const auto* b = static_cast<const Block*>(blocks);
  for (int64_t i = 0; i < count / elements; ++i) decode(b[i], out + i * elements);
}

void decode_bf16(const void* data, int64_t count, float* out) {
  const auto* b = static_cast<const uint8_t*>(data);
  for (int64_t i = 0; i < count; ++i) out[i] = from_bf16(static_cast<uint16_t>(b[2 * i] | b[2 * i + 1] << 8));
}

void decode_f16(const void* data, int64_t count, float* out) {
  const auto* b = static_cast<const Half*>(data);
  for (int64_t i = 0; i < count; ++i) out[i] = b[i].value();
}

}  // namespace

void decode_blocks(DType type, const void* blocks, int64_t count, float* out) {
  const int64_t n = layout_of(type).elements;
  check(count % n == 0, "decode_blocks: the count must be a multiple of the block size");
  switch (type) {
    case DType::kF32:
      std::memcpy(out, blocks, static_cast<size_t>(count) * 4);
      return;
    case DType::kF16:
    case DType::kF16_64:
      return decode_f16(blocks, count, out);
    case DType::kBF16:
      return decode_bf16(blocks, count, out);
    case DType::kQ4_0:
      return decode_all<BlockQ4_0>(blocks, count, out, n);
    case DType::kQ4_1:
      return decode_all<BlockQ4_1>(blocks, count, out, n);
    case DType::kQ5_0:
      return decode_all<BlockQ5_0>(blocks, count, out, n);
    case DType::kQ5_1:
      return decode_all<BlockQ5_1>(blocks, count, out, n);
    case DType::kQ8_0:
      return decode_all<BlockQ8_0>(blocks, count, out, n);
    case DType::kQ2_K:
      return decode_all<BlockQ2_K>(blocks, count, out, n);
    case DType::kQ3_K:
      return decode_all<BlockQ3_K>(blocks, count, out, n);
    case DType::kQ4_K:
      return decode_all<BlockQ4_K>(blocks, count, out, n);
    case DType::kQ5_K:
      return decode_all<BlockQ5_K>(blocks, count, out, n);
    case DType::kQ6_K:
      return decode_all<BlockQ6_K>(blocks, count, out, n);
    case DType::kQ8_24:
      return decode_all<BlockQ8_24>(blocks, count, out, n);
    case DType::kIQ4_NL:
      return decode_all<BlockIQ4_NL>(blocks, count, out, n);
    case DType::kIQ4_XS:
      return decode_all<BlockIQ4_XS>(blocks, count, out, n);
    case DType::kIQ2_XXS:
      return decode_all<BlockIQ2_XXS>(blocks, count, out, n);
    default:
      check(false, "decode_blocks: the type cannot be decoded to f32");
  }
}

}  // namespace makar::kernels
