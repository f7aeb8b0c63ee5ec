#include "quant/encode.h"

#include <algorithm>
#include <cmath>

#include "kernels/block_layout.h"
#include "quant/fit.h"
#include "quant/super_block.h"

namespace makar {
namespace {

using namespace kernels;

constexpr int kSmall = 32;  // values of a small block

void put_nibbles(const int8_t* q, uint8_t* qs) {
  for (int j = 0; j < 16; ++j) qs[j] = static_cast<uint8_t>((q[j] & 15) | (q[j + 16] & 15) << 4);
}
void put_fifth_bits(const int8_t* q, uint8_t* qh) {
  uint32_t bits = 0;
  for (int j = 0; j < kSmall; ++j) bits |= (static_cast<uint32_t>(q[j]) >> 4 & 1u) << j;
  for (int b = 0; b < 4; ++b) qh[b] = static_cast<uint8_t>(bits >> (8 * b));
}

// The symmetric types store q - lo. The scale is rounded to f16 first, so that the integers fit what is
// stored.
void symmetric(const Run& run, int lo, int hi, Half& d, int8_t* q) {
  d.set(fit_symmetric(run, lo, hi).scale);
  round_to(run, d.value(), 0, lo, hi, q);
  for (int i = 0; i < run.n; ++i) q[i] = static_cast<int8_t>(q[i] - lo);
}
void affine(const Run& run, int hi, Half& d, Half& m, int8_t* q) {
  const AffineFit fit = fit_affine(run, hi, false);
  d.set(fit.scale), m.set(fit.offset);
  round_to(run, d.value(), m.value(), 0, hi, q);
}

void encode_one(const Run& run, BlockQ4_0& b) {
  int8_t q[kSmall];
  symmetric(run, -8, 7, b.d, q);
  put_nibbles(q, b.qs);
}
void encode_one(const Run& run, BlockQ5_0& b) {
  int8_t q[kSmall];
  symmetric(run, -16, 15, b.d, q);
  put_nibbles(q, b.qs), put_fifth_bits(q, b.qh);
}
void encode_one(const Run& run, BlockQ4_1& b) {
  int8_t q[kSmall];
  affine(run, 15, b.d, b.m, q);
  put_nibbles(q, b.qs);
}
void encode_one(const Run& run, BlockQ5_1& b) {
  int8_t q[kSmall];
  affine(run, 31, b.d, b.m, q);
  put_nibbles(q, b.qs), put_fifth_bits(q, b.qh);
}
// Eight bits are near enough to lossless that the plain rule, which everyone uses, is kept.
void encode_one(const Run& run, BlockQ8_0& b) {
  float most = 0;
  for (int i = 0; i < kSmall; ++i) most = std::max(most, std::abs(run.x[i]));
  const float d = most / 127.0f, inverse = d > 0 ? 1.0f / d : 0.0f;
  b.d.set(d);
  for (int i = 0; i < kSmall; ++i) b.qs[i] = static_cast<int8_t>(std::round(run.x[i] * inverse));
}

template <class Block>
void encode_small(const float* x, int64_t count, const float* w, std::byte* out) {
  auto* blocks = reinterpret_cast<Block*>(out);
  for (int64_t i = 0; i < count / kSmall; ++i)
    encode_one({x + i * kSmall, w ? w + i * kSmall : nullptr, kSmall}, blocks[i]);
}

template <class To>
void encode_plain(const float* x, int64_t count, std::byte* out, To&& to) {
  auto* values = reinterpret_cast<uint16_t*>(out);
  for (int64_t i = 0; i < count; ++i) values[i] = to(x[i]);
}

}  // namespace

bool can_encode(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ8_0:
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
  check(count % layout_of(type).elements == 0, "encode: whole blocks only");
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
        "encode: one weight a column");
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
