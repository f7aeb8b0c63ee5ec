#include "kernels/decode_blocks.h"

#include <bit>

#include "base/error.h"
#include "kernels/block_layout.h"

namespace makar::kernels {
namespace {

// The points of the E8 lattice used by IQ2_XXS; part of the format.
constexpr uint16_t kIq2Grid[256] = {
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
      const uint32_t codes = kIq2Grid[q[k]];
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

uint16_t iq2_xxs_grid(uint8_t index) { return kIq2Grid[index]; }

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
