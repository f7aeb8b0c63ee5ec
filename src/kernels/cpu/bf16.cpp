// Kernels on bf16 activations as compositions: widen to f32, run the f32 kernel, round; elementwise ones and
// norms a block or a row at a time, so that the f32 values stay in the cache. Products are in
// product_bf16.cpp.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/norm.h"
#include "kernels/cpu/product_bf16.h"
#include "kernels/cpu/ranges.h"
#include "kernels/cpu/tasks.h"
#include "kernels/cpu_device.h"

namespace makar {

using namespace kernels;

namespace {

float widen(Bf16 x) { return from_bf16(x.bits); }
Bf16 round_to_bf16(float x) { return {to_bf16(x)}; }
void widen_values(const Bf16* x, int64_t n, float* y) {
  cpu().widen(DType::kBF16, reinterpret_cast<const uint16_t*>(x), n, y);
}
void round_values(const float* x, int64_t n, Bf16* y) {
  cpu().store_sums_bf16(x, nullptr, false, n, reinterpret_cast<uint16_t*>(y));
}

// Scratch buffer of f32 values: a copy of bf16 values, or results that are rounded to bf16 later.
class FloatBuffer {
 public:
  FloatBuffer(ThreadPool& pool, int64_t n)
      : pool_(pool), n_(n), values_(Scratch::of_floats(std::max<int64_t>(n, 1))) {}
  FloatBuffer(ThreadPool& pool, const Bf16* x, int64_t n) : FloatBuffer(pool, n) {
    each_range(pool_, n,
               [&](int64_t begin, int64_t end) { widen_values(x + begin, end - begin, data() + begin); });
  }
  float* data() const { return values_.floats(); }
  void round_to(Bf16* y, bool accumulate = false) const {
    each_range(pool_, n_, [&](int64_t begin, int64_t end) {
      if (!accumulate) return round_values(data() + begin, end - begin, y + begin);
      for (int64_t i = begin; i < end; ++i) y[i] = round_to_bf16(widen(y[i]) + data()[i]);
    });
  }

 private:
  ThreadPool& pool_;
  int64_t n_;
  Scratch values_;
};

// A block of f32 values, copied or to be rounded.
struct FloatBlock {
  static constexpr int64_t kMax = 2048;
  alignas(64) float values[kMax];
  FloatBlock() {}
  FloatBlock(const Bf16* x, int64_t n) { widen_values(x, n, values); }
  void round_to(Bf16* y, int64_t n, bool accumulate = false) const {
    if (!accumulate) return round_values(values, n, y);
    for (int64_t i = 0; i < n; ++i) y[i] = round_to_bf16(widen(y[i]) + values[i]);
  }
};

// body(begin, count) for blocks of [0, n).
template <class Body>
void each_block(ThreadPool& pool, int64_t n, const Body& body) {
  each_range(pool, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += FloatBlock::kMax) body(i, std::min(FloatBlock::kMax, end - i));
  });
}

const ActivationKernels& kernels_of(Activation kind) { return cpu().activation[static_cast<int>(kind)]; }

}  // namespace

void CpuDevice::convert(const Convert& a) {
  if (!a.factor && !a.accumulate && a.from != a.to) {
    each_range(*pool_, a.n, [&](int64_t begin, int64_t end) {
      if (a.to == DType::kF32)
        widen_values(static_cast<const Bf16*>(a.x) + begin, end - begin, static_cast<float*>(a.y) + begin);
      else
        round_values(static_cast<const float*>(a.x) + begin, end - begin, static_cast<Bf16*>(a.y) + begin);
    });
    return;
  }
  const auto run = [&](auto read, auto write) {
    each_range(*pool_, a.n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) write(i, a.factor ? read(i) * a.factor[0] : read(i));
    });
  };
  const auto to = [&](auto read) {
    if (a.to == DType::kF32) {
      auto* y = static_cast<float*>(a.y);
      run(read, [&](int64_t i, float v) { y[i] = a.accumulate ? y[i] + v : v; });
    } else {
      auto* y = static_cast<Bf16*>(a.y);
      run(read, [&](int64_t i, float v) { y[i] = round_to_bf16(a.accumulate ? widen(y[i]) + v : v); });
    }
  };
  if (a.from == DType::kF32)
    to([x = static_cast<const float*>(a.x)](int64_t i) { return x[i]; });
  else
    to([x = static_cast<const Bf16*>(a.x)](int64_t i) { return widen(x[i]); });
}

void CpuDevice::round_layer_bf16(const RoundLayerBf16& a) {
  convert({a.weights, DType::kF32, a.to_weights, DType::kBF16, a.weight_count, nullptr, false});
  convert({a.biases, DType::kF32, a.to_biases, DType::kBF16, a.bias_count, nullptr, false});
}

void CpuDevice::add_bf16(const AddBf16& a) {
  each_range(*pool_, a.n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) a.y[i] = a.a[i] + widen(a.b[i]);
  });
}
void CpuDevice::activate_bf16(const ActivateBf16& a) {
  each_block(*pool_, a.n, [&](int64_t i, int64_t n) {
    const FloatBlock x(a.x + i, n);
    FloatBlock y;
    kernels_of(a.kind).forward(x.values, y.values, n);
    y.round_to(a.y + i, n);
  });
}
void CpuDevice::activate_backward_bf16(const ActivateBackwardBf16& a) {
  each_block(*pool_, a.n, [&](int64_t i, int64_t n) {
    const FloatBlock x(a.x + i, n), dy(a.dy + i, n);
    FloatBlock dx;
    kernels_of(a.kind).backward(x.values, dy.values, dx.values, n, false);
    dx.round_to(a.dx + i, n, a.accumulate);
  });
  if (a.column_sums) column_sums_bf16({a.dx, a.column_sums, a.n / a.cols, a.cols, false});
}
void CpuDevice::gated_bf16(const GatedBf16& a) {
  each_block(*pool_, a.n, [&](int64_t i, int64_t n) {
    const FloatBlock gate(a.gate + i, n), up(a.up + i, n);
    FloatBlock y;
    kernels_of(a.kind).gated(gate.values, up.values, y.values, n);
    y.round_to(a.y + i, n);
  });
}
void CpuDevice::gated_backward_bf16(const GatedBackwardBf16& a) {
  each_block(*pool_, a.n, [&](int64_t i, int64_t n) {
    const FloatBlock gate(a.gate + i, n), up(a.up + i, n), dy(a.dy + i, n);
    FloatBlock dgate, dup;
    kernels_of(a.kind).gated_backward(gate.values, up.values, dy.values, dgate.values, dup.values, n);
    dgate.round_to(a.dgate + i, n);
    dup.round_to(a.dup + i, n);
  });
}
void CpuDevice::rope_bf16(const RopeBf16& a) {
  const int64_t n = a.rows * a.heads * a.head_dim;
  const FloatBuffer x(*pool_, a.x, n), y(*pool_, n);
  rope({x.data(), a.cos, a.sin, y.data(), a.rows, a.heads, a.head_dim, a.rotary, a.interleaved, a.sign});
  y.round_to(a.y);
}
void CpuDevice::norm_bf16(const NormBf16& a) {
  if (a.addend) {
    add_bf16({a.x, a.addend, a.sum, a.rows * a.cols});
    return norm_bf16({a.rms, a.sum, a.w, a.b, a.y, a.stats, a.rows, a.cols, a.eps, a.offset});
  }
  const int64_t per_row = a.rms ? 1 : 2;
  each_rows(*pool_, a.rows, a.cols, [&](int64_t begin, int64_t end) {
    const Scratch y = Scratch::of_floats(std::max<int64_t>(a.cols, 1));
    for (int64_t r = begin; r < end; ++r) {
      const NormRows row{a.x + r * a.cols, a.w,   a.b,     y.floats(), a.stats + r * per_row, 1,
                         a.cols,           a.eps, a.offset};
      a.rms ? cpu().rms_norm(row) : cpu().layer_norm(row);
      round_values(y.floats(), a.cols, a.y + r * a.cols);
    }
  });
}
void CpuDevice::norm_backward_bf16(const NormBackwardBf16& a) {
  norm_backward_rows(*pool_,
                     {a.rms, a.x, a.w, nullptr, a.stats, a.dx, a.dw, a.db, a.rows, a.cols, a.offset,
                      a.accumulate_x, a.accumulate_w, a.accumulate_b},
                     a.dy);
  if (a.rounded) convert({a.dx, DType::kF32, a.rounded, DType::kBF16, a.rows * a.cols, nullptr, false});
  if (a.rounded_sums) column_sums_bf16({a.rounded, a.rounded_sums, a.rows, a.cols, false});
}

void CpuDevice::product_bf16(const ProductBf16& a) { kernels::product_bf16(*pool_, a); }

void CpuDevice::gemm_packed_bf16(const PackedGemmBf16& a) {
  for (int64_t i = 0; i < a.count; ++i) {
    const PackedProductBf16& p = a.products[i];
    const Scratch bias = Scratch::of_floats(p.bias ? p.b->n() : 0);
    for (int64_t j = 0; p.bias && j < p.b->n(); ++j) bias.floats()[j] = widen(round_to_bf16(p.bias[j]));
    kernels::product_bf16(*pool_, a.m, a.a, static_cast<const PackedMatrix&>(*p.b), bias.floats(), p.c);
  }
}

void CpuDevice::cross_entropy_bf16(const CrossEntropyBf16& a) {
  const FloatBuffer x(*pool_, a.rows * a.cols);
  pool_->for_ranges(a.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) widen_values(a.x + i * a.stride, a.cols, x.data() + i * a.cols);
  });
  cross_entropy({x.data(), a.gradient ? x.data() : nullptr, a.targets, a.losses, a.rows, a.cols, a.smoothing,
                 a.weight, a.soft_cap});
  if (!a.gradient) return;
  pool_->for_ranges(a.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      round_values(x.data() + i * a.cols, a.cols, a.x + i * a.stride);
      std::fill(a.x + i * a.stride + a.cols, a.x + (i + 1) * a.stride, Bf16{0});
    }
  });
}

namespace {

// The number of values in q (in k and v) up to the last row of any sequence.
int64_t q_extent(const AttentionShape& s) {
  int64_t rows = 0;
  for (int64_t i = 0; i < s.count; ++i) rows = std::max(rows, s.sequences[i].q_start + s.sequences[i].q_rows);
  return rows * s.heads * s.head_dim;
}
int64_t kv_extent(const AttentionShape& s) {
  int64_t rows = 0;
  for (int64_t i = 0; i < s.count; ++i)
    rows = std::max(rows, s.sequences[i].kv_start + s.sequences[i].kv_rows);
  return rows * s.kv_heads * s.head_dim;
}

// Rounds the rows of all sequences.
template <class Rows>
void round_rows(ThreadPool& pool, const AttentionShape& s, int64_t width, const FloatBuffer& from, Bf16* to,
                Rows rows) {
  for (int64_t i = 0; i < s.count; ++i) {
    const auto [start, count] = rows(s.sequences[i]);
    const float* x = from.data() + start * width;
    Bf16* y = to + start * width;
    each_range(pool, count * width,
               [&](int64_t begin, int64_t end) { round_values(x + begin, end - begin, y + begin); });
  }
}
std::pair<int64_t, int64_t> q_rows(const SequenceRows& s) { return {s.q_start, s.q_rows}; }
std::pair<int64_t, int64_t> kv_rows(const SequenceRows& s) { return {s.kv_start, s.kv_rows}; }

}  // namespace

void CpuDevice::attention_bf16(const AttentionBf16& a) {
  const int64_t nq = q_extent(a.shape), nk = kv_extent(a.shape);
  const FloatBuffer q(*pool_, a.q, nq), k(*pool_, a.k, nk), v(*pool_, a.v, nk), out(*pool_, nq);
  attention({a.shape, q.data(), k.data(), v.data(), out.data(), a.lse});
  round_rows(*pool_, a.shape, a.shape.heads * a.shape.head_dim, out, a.out, q_rows);
}
namespace {

// Row `at` of the keys or values of one head, in a page of bf16.
Bf16* cached_row(const CacheLayer& cache, const SequenceRows& s, int64_t at, int64_t offset,
                 int64_t head_bytes, int64_t head, int64_t dim) {
  auto* page = const_cast<std::byte*>(cache.pages[s.first_page + at / kKeyTile]);
  return reinterpret_cast<Bf16*>(page + offset + head * head_bytes) + at % kKeyTile * dim;
}

}  // namespace

void CpuDevice::cache_store_bf16(const CacheStoreBf16& a) {
  const CacheLayer& c = a.cache;
  const auto bytes = static_cast<size_t>(a.head_dim) * sizeof(Bf16);
  for (int64_t n = 0; n < a.count; ++n) {
    const SequenceRows& s = a.sequences[n];
    for (int64_t i = 0; i < s.q_rows; ++i)
      for (int64_t h = 0; h < a.kv_heads; ++h) {
        const int64_t from = ((s.q_start + i) * a.kv_heads + h) * a.head_dim, at = s.past + i;
        std::memcpy(cached_row(c, s, at, c.k_offset, c.k_head, h, a.head_dim), a.k + from, bytes);
        std::memcpy(cached_row(c, s, at, c.v_offset, c.v_head, h, a.head_dim), a.v + from, bytes);
      }
  }
}

// Copies the visible keys and values out of the pages and runs attention without a cache.
void CpuDevice::attention_cached_bf16(const AttentionCachedBf16& a) {
  const CacheLayer& c = a.cache;
  const int64_t dim = a.shape.head_dim, heads = a.shape.kv_heads;
  std::vector<SequenceRows> sequences(a.shape.sequences, a.shape.sequences + a.shape.count);
  int64_t rows = 0;
  for (SequenceRows& s : sequences) s.kv_start = rows, rows += s.kv_rows;
  const FloatBuffer q(*pool_, a.q, q_extent(a.shape)), out(*pool_, q_extent(a.shape)),
      k(*pool_, rows * heads * dim), v(*pool_, rows * heads * dim), lse(*pool_, q_extent(a.shape) / dim);
  for (const SequenceRows& s : sequences) {
    // Pages before the window of the first row may have been released.
    const int64_t first = a.shape.window > 0 ? std::max<int64_t>(0, s.past - a.shape.window + 1) : 0;
    std::fill_n(k.data() + s.kv_start * heads * dim, first * heads * dim, 0.0f);
    std::fill_n(v.data() + s.kv_start * heads * dim, first * heads * dim, 0.0f);
    for (int64_t j = first; j < s.kv_rows; ++j)
      for (int64_t h = 0; h < heads; ++h) {
        const Bf16 *key = cached_row(c, s, j, c.k_offset, c.k_head, h, dim),
                   *value = cached_row(c, s, j, c.v_offset, c.v_head, h, dim);
        const int64_t to = ((s.kv_start + j) * heads + h) * dim;
        for (int64_t d = 0; d < dim; ++d)
          k.data()[to + d] = widen(key[d]), v.data()[to + d] = widen(value[d]);
      }
  }
  AttentionShape shape = a.shape;
  shape.sequences = sequences.data();
  attention({shape, q.data(), k.data(), v.data(), out.data(), lse.data()});
  round_rows(*pool_, a.shape, a.shape.heads * dim, out, a.out, q_rows);
}

void CpuDevice::attention_backward_bf16(const AttentionBackwardBf16& a) {
  const int64_t nq = q_extent(a.shape), nk = kv_extent(a.shape);
  const FloatBuffer q(*pool_, a.q, nq), k(*pool_, a.k, nk), v(*pool_, a.v, nk), out(*pool_, a.out, nq),
      dy(*pool_, a.dy, nq);
  const FloatBuffer dq(*pool_, nq), dk(*pool_, nk), dv(*pool_, nk);
  fill({dq.data(), nq, 0.0f});
  fill({dk.data(), nk, 0.0f});
  fill({dv.data(), nk, 0.0f});
  attention_backward({a.shape, q.data(), k.data(), v.data(), out.data(), a.lse, dy.data(), dq.data(),
                      dk.data(), dv.data(), nullptr});
  round_rows(*pool_, a.shape, a.shape.heads * a.shape.head_dim, dq, a.dq, q_rows);
  round_rows(*pool_, a.shape, a.shape.kv_heads * a.shape.head_dim, dk, a.dk, kv_rows);
  round_rows(*pool_, a.shape, a.shape.kv_heads * a.shape.head_dim, dv, a.dv, kv_rows);
}

void CpuDevice::fused_products_bf16(const FusedProductsBf16& a) { run_separately(*this, a); }
void CpuDevice::fused_products(const FusedProducts& a) { run_separately(*this, a); }
void CpuDevice::decode_attention_bf16(const DecodeAttentionBf16& a) { run_separately(*this, a); }

}  // namespace makar
