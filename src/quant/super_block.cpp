#include "quant/super_block.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/block_layout.h"
#include "quant/fit.h"
#include "quant/grid.h"

namespace makar {
namespace {

using namespace kernels;

constexpr int kBlock = 256;

FitValues sub_block(const float* x, const float* w, int part, int size) {
  return {x + part * size, w ? w + part * size : nullptr, size};
}

// --- Q4_K and Q5_K: x ~ d * scale[p] * q - dmin * min[p], eight sub-blocks of 32 ---

struct Affine {
  Half d{}, dmin{};
  int scale[8] = {}, min[8] = {};  // 0..63
  int8_t q[kBlock] = {};
  double error = 0;
};

int six_bits(float v, float unit) {
  return unit > 0 ? static_cast<int>(std::min(63.0f, std::max(0.0f, std::nearbyint(v / unit)))) : 0;
}

// Rounds to integers for given scales.
void round_sub_blocks(const float* x, const float* w, int hi, Affine& a) {
  a.error = 0;
  for (int p = 0; p < 8; ++p)
    a.error += round_to(sub_block(x, w, p, 32), a.d.value() * static_cast<float>(a.scale[p]),
                        -a.dmin.value() * static_cast<float>(a.min[p]), 0, hi, a.q + p * 32);
}

// The best d and dmin for the current integers: least squares in two unknowns.
bool refit(const float* x, const float* w, Affine& a) {
  double uu = 0, vv = 0, uv = 0, xu = 0, xv = 0;
  for (int i = 0; i < kBlock; ++i) {
    const double u = a.scale[i / 32] * a.q[i], v = -a.min[i / 32], weight = w ? w[i] : 1.0;
    uu += weight * u * u, vv += weight * v * v, uv += weight * u * v;
    xu += weight * x[i] * u, xv += weight * x[i] * v;
  }
  const double determinant = uu * vv - uv * uv;
  double d = uu > 0 ? xu / uu : 0, dmin = 0;
  if (determinant > 1e-12 * uu * vv)
    d = (xu * vv - xv * uv) / determinant, dmin = (xv * uu - xu * uv) / determinant;
  if (!(d > 0) || dmin < 0) return false;
  a.d.set(static_cast<float>(d));
  if (vv > 0) a.dmin.set(static_cast<float>(dmin));
  return true;
}

Affine fit_block(const float* x, const float* w, int hi) {
  AffineFit fits[8];
  float max_scale = 0, max_min = 0;
  for (int p = 0; p < 8; ++p) {
    fits[p] = fit_affine(sub_block(x, w, p, 32), hi, true);
    max_scale = std::max(max_scale, fits[p].scale);
    max_min = std::max(max_min, -fits[p].offset);
  }
  Affine a;
  a.d.set(max_scale / 63.0f), a.dmin.set(max_min / 63.0f);
  for (int p = 0; p < 8; ++p) {
    a.scale[p] = six_bits(fits[p].scale, a.d.value());
    a.min[p] = six_bits(-fits[p].offset, a.dmin.value());
  }
  round_sub_blocks(x, w, hi, a);
  // Rounding the scales shifts the optimum: fit again around the integers while that helps.
  for (int round = 0; round < 3; ++round) {
    Affine next = a;
    if (!refit(x, w, next)) break;
    round_sub_blocks(x, w, hi, next);
    if (!(next.error < a.error)) break;
    a = next;
  }
  return a;
}

void put_scales(const Affine& a, uint8_t* s) {
  for (int j = 0; j < 4; ++j) {
    s[j] = static_cast<uint8_t>(a.scale[j] | (a.scale[j + 4] >> 4) << 6);
    s[j + 4] = static_cast<uint8_t>(a.min[j] | (a.min[j + 4] >> 4) << 6);
    s[j + 8] = static_cast<uint8_t>((a.scale[j + 4] & 15) | (a.min[j + 4] & 15) << 4);
  }
}

template <class Block>
void encode_affine(const float* x, const float* w, int hi, DType type, Block& b) {
  const Affine a = fit_block(x, w, hi);
  b.d = a.d, b.dmin = a.dmin;
  put_scales(a, b.scales);
  pack_integers(type, a.q, reinterpret_cast<std::byte*>(&b));
}
void encode_one(const float* x, const float* w, BlockQ4_K& b) { encode_affine(x, w, 15, DType::kQ4_K, b); }
void encode_one(const float* x, const float* w, BlockQ5_K& b) { encode_affine(x, w, 31, DType::kQ5_K, b); }

// --- Q6_K: x ~ d * scale[p] * (q - 32), sixteen sub-blocks of 16, signed 8-bit scales ---

struct Symmetric {
  Half d{};
  int8_t scale[16] = {}, q[kBlock] = {};
  double error = 0;
};

void round_sub_blocks(const float* x, const float* w, Symmetric& s) {
  s.error = 0;
  for (int p = 0; p < 16; ++p)
    s.error += round_to(sub_block(x, w, p, 16), s.d.value() * static_cast<float>(s.scale[p]), 0, -32, 31,
                        s.q + p * 16);
}

bool refit(const float* x, const float* w, Symmetric& s) {
  double uu = 0, xu = 0;
  for (int i = 0; i < kBlock; ++i) {
    const double u = s.scale[i / 16] * s.q[i], weight = w ? w[i] : 1.0;
    uu += weight * u * u, xu += weight * x[i] * u;
  }
  if (!(uu > 0)) return false;
  s.d.set(static_cast<float>(xu / uu));
  return true;
}

void encode_one(const float* x, const float* w, BlockQ6_K& b) {
  float scales[16], max = 0;
  for (int p = 0; p < 16; ++p) {
    scales[p] = fit_symmetric(sub_block(x, w, p, 16), -32, 31).scale;
    if (std::abs(scales[p]) > std::abs(max)) max = scales[p];
  }
  Symmetric s;
  s.d.set(max / -128.0f);
  const float inverse = s.d.value() != 0 ? 1.0f / s.d.value() : 0.0f;
  for (int p = 0; p < 16; ++p)
    s.scale[p] =
        static_cast<int8_t>(std::min(127.0f, std::max(-128.0f, std::nearbyint(scales[p] * inverse))));
  round_sub_blocks(x, w, s);
  for (int round = 0; round < 2; ++round) {
    Symmetric next = s;
    if (!refit(x, w, next)) break;
    round_sub_blocks(x, w, next);
    if (!(next.error < s.error)) break;
    s = next;
  }
  b.d = s.d;
  std::copy_n(s.scale, 16, b.scales);
  pack_integers(DType::kQ6_K, s.q, reinterpret_cast<std::byte*>(&b));
}

template <class Block>
void encode_all(const float* x, int64_t count, const float* w, std::byte* out) {
  auto* blocks = reinterpret_cast<Block*>(out);
  for (int64_t i = 0; i < count / kBlock; ++i)
    encode_one(x + i * kBlock, w ? w + i * kBlock : nullptr, blocks[i]);
}

}  // namespace

void encode_super_blocks(DType type, const float* x, int64_t count, const float* w, std::byte* out) {
  switch (type) {
    case DType::kQ4_K:
      return encode_all<BlockQ4_K>(x, count, w, out);
    case DType::kQ5_K:
      return encode_all<BlockQ5_K>(x, count, w, out);
    case DType::kQ6_K:
      return encode_all<BlockQ6_K>(x, count, w, out);
    default:
      check(false, "not a super-block type");
  }
}

}  // namespace makar
