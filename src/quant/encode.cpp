#include "quant/encode.h"

#include <algorithm>
#include <cmath>

#include "kernels/block_layout.h"
#include "quant/fit.h"
#include "quant/grid.h"
#include "quant/super_block.h"

namespace makar {
namespace {

using namespace kernels;

constexpr int kSmallBlock = 32;  // values per small block

// The scale is rounded to f16 first, so that the integers fit the stored scale.
template <class Block>
void symmetric(const FitValues& values, int lo, int hi, DType type, Block& b) {
  int8_t q[kSmallBlock];
  b.d.set(fit_symmetric(values, lo, hi).scale);
  round_to(values, b.d.value(), 0, lo, hi, q);
  pack_integers(type, q, reinterpret_cast<std::byte*>(&b));
}
template <class Block>
void affine(const FitValues& values, int hi, DType type, Block& b) {
  int8_t q[kSmallBlock];
  const AffineFit fit = fit_affine(values, hi, false);
  b.d.set(fit.scale), b.m.set(fit.offset);
  round_to(values, b.d.value(), b.m.value(), 0, hi, q);
  pack_integers(type, q, reinterpret_cast<std::byte*>(&b));
}

void encode_one(const FitValues& values, BlockQ4_0& b) { symmetric(values, -8, 7, DType::kQ4_0, b); }
void encode_one(const FitValues& values, BlockQ5_0& b) { symmetric(values, -16, 15, DType::kQ5_0, b); }
void encode_one(const FitValues& values, BlockQ4_1& b) { affine(values, 15, DType::kQ4_1, b); }
void encode_one(const FitValues& values, BlockQ5_1& b) { affine(values, 31, DType::kQ5_1, b); }
// Eight bits are nearly lossless: use the usual rule (maximum / 127).
void encode_one(const FitValues& values, BlockQ8_0& b) {
  float max = 0;
  for (int i = 0; i < kSmallBlock; ++i) max = std::max(max, std::abs(values.x[i]));
  const float d = max / 127.0f, inverse = d > 0 ? 1.0f / d : 0.0f;
  b.d.set(d);
  for (int i = 0; i < kSmallBlock; ++i) b.qs[i] = static_cast<int8_t>(std::round(values.x[i] * inverse));
}

template <class Block>
void encode_small(const float* x, int64_t count, const float* w, std::byte* out) {
  auto* blocks = reinterpret_cast<Block*>(out);
  for (int64_t i = 0; i < count / kSmallBlock; ++i)
    encode_one({x + i * kSmallBlock, w ? w + i * kSmallBlock : nullptr, kSmallBlock}, blocks[i]);
}

template <class To>
void encode_plain(const float* x, int64_t count, std::byte* out, To&& to) {
  auto* values = reinterpret_cast<uint16_t*>(out);
  for (int64_t i = 0; i < count; ++i) values[i] = to(x[i]);
}

// Like Q8_0, but stores only two of each four values, with their positions; the others must be zero.
void encode_sparse(const float* x, int64_t count, const float* w, std::byte* out) {
  for (int64_t at = 0; at < count; at += kSmallBlock, out += sizeof(BlockQ8_24)) {
    BlockQ8_0 full;
    encode_small<BlockQ8_0>(x + at, kSmallBlock, w ? w + at : nullptr, reinterpret_cast<std::byte*>(&full));
    BlockQ8_24 sparse{full.d, {}, {}};
    for (int group = 0; group < 8; ++group) {
      const int8_t* q = full.qs + group * 4;
      int stored = 0, order[4];
      for (int j = 0; j < 4; ++j)
        if (q[j] != 0) order[stored++] = j;
      check(stored <= 2, "encode: more than 2 of 4 weights are not zero");
      for (int j = 0; j < 4 && stored < 2; ++j)
        if (q[j] == 0) order[stored++] = j;
      for (int i = 0; i < 2; ++i) {
        const int value = group * 2 + i;
        sparse.qs[value] = q[order[i]];
        sparse.positions[value / 4] |= static_cast<uint8_t>(order[i] << (value % 4 * 2));
      }
    }
    std::memcpy(out, &sparse, sizeof sparse);
  }
}

}  // namespace

bool is_two_of_four(const Tensor& x) {
  if (x.shape().rank() != 2 || x.dim(1) % kSmallBlock != 0) return false;
  const auto values = x.span();
  for (size_t at = 0; at < values.size(); at += 4) {
    int used = 0;
    for (size_t i = 0; i < 4; ++i) used += values[at + i] != 0.0f ? 1 : 0;
    if (used > 2) return false;
  }
  return true;
}

bool can_encode(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ8_0:
    case DType::kQ8_24:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return true;
    default:
      return false;
  }
}

void encode_row(DType type, const float* x, int64_t count, const float* w, std::byte* out) {
  check(count % layout_of(type).elements == 0, "encode: a row must be whole blocks");
  switch (type) {
    case DType::kF32:
      std::memcpy(out, x, static_cast<size_t>(count) * 4);
      return;
    case DType::kF16:
      return encode_plain(x, count, out, to_f16);
    case DType::kBF16:
      return encode_plain(x, count, out, to_bf16);
    case DType::kQ8_0:
      return encode_small<BlockQ8_0>(x, count, w, out);
    case DType::kQ8_24:
      return encode_sparse(x, count, w, out);
    case DType::kQ4_0:
      return encode_small<BlockQ4_0>(x, count, w, out);
    case DType::kQ4_1:
      return encode_small<BlockQ4_1>(x, count, w, out);
    case DType::kQ5_0:
      return encode_small<BlockQ5_0>(x, count, w, out);
    case DType::kQ5_1:
      return encode_small<BlockQ5_1>(x, count, w, out);
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return encode_super_blocks(type, x, count, w, out);
    default:
      check(false, "encode: no encoder for " + name(type));
  }
}

Tensor encode(ThreadPool& pool, const Tensor& x, DType type, std::span<const float> importance) {
  const int64_t columns = x.dim(-1), rows = x.count() / columns;
  check(importance.empty() || static_cast<int64_t>(importance.size()) == columns,
        "encode: expected one weight per column");
  Tensor out = Tensor::empty(x.shape(), type);
  const size_t row_bytes = bytes_of(type, columns);
  const float* weights = importance.empty() ? nullptr : importance.data();
  pool.for_ranges(rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      encode_row(type, x.f32() + r * columns, columns, weights,
                 out.raw() + static_cast<size_t>(r) * row_bytes);
  });
  return out;
}

}  // namespace makar
