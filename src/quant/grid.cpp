#include "quant/grid.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/block_layout.h"

namespace makar {
namespace {

using namespace kernels;

void fill(Grid& g, int n, int lo, int hi, float scale, float offset) {
  g.n = n, g.lo = lo, g.hi = hi;
  std::fill_n(g.scale, n, scale), std::fill_n(g.offset, n, offset);
}

template <class Block>
void fill_affine(Grid& g, const Block& b, int hi) {
  g.n = 256, g.lo = 0, g.hi = hi;
  for (int i = 0; i < 256; ++i) {
    const ScaleMin s = scale_min(b.scales, i / 32);
    g.scale[i] = b.d.value() * static_cast<float>(s.scale),
    g.offset[i] = -(b.dmin.value() * static_cast<float>(s.min));
  }
}

// Blocks of 32: the low four bits of q - lo in qs, the fifth in qh (null for four-bit types).
void put_small(const int8_t* q, int lo, uint8_t* qs, uint8_t* qh) {
  uint32_t bits = 0;
  for (int j = 0; j < 32; ++j) {
    const auto v = static_cast<uint32_t>(q[j] - lo);
    qs[j % 16] = static_cast<uint8_t>(j < 16 ? v & 15 : qs[j % 16] | (v & 15) << 4);
    bits |= (v >> 4 & 1u) << j;
  }
  for (int b = 0; qh && b < 4; ++b) qh[b] = static_cast<uint8_t>(bits >> (8 * b));
}

void put_nibbles(const int8_t* q, uint8_t* qs) {
  for (int i = 0; i < 128; ++i) {
    const int at = i / 32 * 64 + i % 32;
    qs[i] = static_cast<uint8_t>((q[at] & 15) | (q[at + 32] & 15) << 4);
  }
}

void put_fifth_bits(const int8_t* q, uint8_t* qh) {
  for (int i = 0; i < 32; ++i) {
    qh[i] = 0;
    for (int p = 0; p < 8; ++p) qh[i] = static_cast<uint8_t>(qh[i] | (q[p * 32 + i] >> 4 & 1) << p);
  }
}

void put_six_bits(const int8_t* q, BlockQ6_K& b) {
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 32; ++i) {
      const auto v = [&](int quarter) {
        return static_cast<unsigned>(q[half * 128 + quarter * 32 + i] + 32);
      };
      b.ql[half * 64 + i] = static_cast<uint8_t>((v(0) & 15) | (v(2) & 15) << 4);
      b.ql[half * 64 + 32 + i] = static_cast<uint8_t>((v(1) & 15) | (v(3) & 15) << 4);
      b.qh[half * 32 + i] =
          static_cast<uint8_t>(v(0) >> 4 | (v(1) >> 4) << 2 | (v(2) >> 4) << 4 | (v(3) >> 4) << 6);
    }
}

template <class Block>
const Block& as(const std::byte* bytes) {
  return *reinterpret_cast<const Block*>(bytes);
}
template <class Block>
Block& as(std::byte* bytes) {
  return *reinterpret_cast<Block*>(bytes);
}

}  // namespace

int8_t Grid::nearest(int i, float x) const {
  const float q = scale[i] != 0 ? std::nearbyint((x - offset[i]) / scale[i]) : 0.0f;
  return static_cast<int8_t>(std::min(static_cast<float>(hi), std::max(static_cast<float>(lo), q)));
}

Grid read_grid(DType type, const std::byte* block) {
  Grid g;
  switch (type) {
    case DType::kQ4_0:
      fill(g, 32, -8, 7, as<BlockQ4_0>(block).d.value(), 0);
      break;
    case DType::kQ5_0:
      fill(g, 32, -16, 15, as<BlockQ5_0>(block).d.value(), 0);
      break;
    case DType::kQ8_0:
      fill(g, 32, -127, 127, as<BlockQ8_0>(block).d.value(), 0);
      break;
    case DType::kQ4_1:
      fill(g, 32, 0, 15, as<BlockQ4_1>(block).d.value(), as<BlockQ4_1>(block).m.value());
      break;
    case DType::kQ5_1:
      fill(g, 32, 0, 31, as<BlockQ5_1>(block).d.value(), as<BlockQ5_1>(block).m.value());
      break;
    case DType::kQ4_K:
      fill_affine(g, as<BlockQ4_K>(block), 15);
      break;
    case DType::kQ5_K:
      fill_affine(g, as<BlockQ5_K>(block), 31);
      break;
    case DType::kQ6_K: {
      const auto& b = as<BlockQ6_K>(block);
      fill(g, 256, -32, 31, 0, 0);
      for (int i = 0; i < 256; ++i) g.scale[i] = b.d.value() * static_cast<float>(b.scales[i / 16]);
      break;
    }
    default:
      check(false, "no grid for " + name(type));
  }
  return g;
}

void pack_integers(DType type, const int8_t* q, std::byte* block) {
  switch (type) {
    case DType::kQ4_0:
      return put_small(q, -8, as<BlockQ4_0>(block).qs, nullptr);
    case DType::kQ4_1:
      return put_small(q, 0, as<BlockQ4_1>(block).qs, nullptr);
    case DType::kQ5_0:
      return put_small(q, -16, as<BlockQ5_0>(block).qs, as<BlockQ5_0>(block).qh);
    case DType::kQ5_1:
      return put_small(q, 0, as<BlockQ5_1>(block).qs, as<BlockQ5_1>(block).qh);
    case DType::kQ8_0:
      std::copy_n(q, 32, as<BlockQ8_0>(block).qs);
      return;
    case DType::kQ4_K:
      return put_nibbles(q, as<BlockQ4_K>(block).qs);
    case DType::kQ5_K:
      put_fifth_bits(q, as<BlockQ5_K>(block).qh);
      return put_nibbles(q, as<BlockQ5_K>(block).qs);
    case DType::kQ6_K:
      return put_six_bits(q, as<BlockQ6_K>(block));
    default:
      check(false, "no integers in " + name(type));
  }
}

}  // namespace makar
