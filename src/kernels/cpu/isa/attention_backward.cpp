// Gradient of fused attention for one query head of one sequence: the weights are recomputed tile by tile
// from the stored log-sum-exp. dk and dv accumulate in the order of q blocks, dq in the order of key tiles.
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/isa/attention_block.h"
#include "kernels/cpu/isa/sections.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

// Scratch memory.
struct Buffers {
  float *q_a, *q_b, *do_a, *do_b;  // all rows: panels for scores, for dk, for dp, for dv
  float *k_b, *v_b, *k_rows;       // one tile: panels for scores, for dp, for dq
  float *p, *dp, *panels, *delta;  // one block; one value per row
};

struct Sizes : Layout {
  int64_t b_rows;  // one block of rows as B panels
  int64_t blocks;
  Sizes(const AttentionHead& a, const Table& t)
      : Layout(a, t), b_rows(block * round_up(a.dim, t.nr)), blocks(ceil_div(a.rows, block)) {}
  int64_t panel() const { return std::max(round_up(kKeyTile, 16) * round_up(block, 16), p_panels) * 2; }
  int64_t total() const {
    return 2 * q_panels + 2 * blocks * b_rows + 2 * k_panels + v_panels + 2 * block * kKeyTile + panel() +
           rows;
  }
};

Buffers lay_out(const Sizes& z, float* at) {
  Buffers p;
  const auto take = [&at](int64_t n) { return std::exchange(at, at + n); };
  p.q_a = take(z.q_panels), p.do_a = take(z.q_panels);
  p.q_b = take(z.blocks * z.b_rows), p.do_b = take(z.blocks * z.b_rows);
  p.k_b = take(z.k_panels), p.v_b = take(z.k_panels), p.k_rows = take(z.v_panels);
  p.p = take(z.block * kKeyTile), p.dp = take(z.block * kKeyTile);
  p.panels = take(z.panel()), p.delta = take(z.rows);
  return p;
}

// Converts raw products (in p) and dO V^T (in dp) to weights and score gradients for one row.
void row_gradient(const AttentionHead& a, const AttentionHeadBackward& g, int64_t i, int64_t j0,
                  int64_t key_count, float delta, float* p, float* dp) {
  const Span v = visible_keys(a, i, j0, key_count);
  adjust_scores(a, i, j0, v, p);
  const float lse = a.lse[i * a.lse_stride];
  const float* bias = a.bias ? bias_at(a, i, j0) : nullptr;
  float* dbias = g.dbias ? g.dbias + (j0 - (a.past + i)) : nullptr;
  std::fill_n(dp, v.begin, 0.0f), std::fill(dp + v.end, dp + key_count, 0.0f);
  for (int64_t j = v.begin; j < v.end; ++j) {
    const float w = exp_of(p[j] - lse);
    float keep = 1.0f;
    if (a.dropout > 0.0f) keep = keep_factor(a, i, j0 + j);
    float ds = w * (dp[j] * keep - delta);
    if (dbias) dbias[j] += ds;
    if (a.soft_cap > 0.0f) {
      const float capped = (bias ? p[j] - bias[j] : p[j]) / a.soft_cap;
      ds *= 1.0f - capped * capped;
    }
    dp[j] = ds * a.scale;
    p[j] = w * keep;
  }
  std::fill_n(p, v.begin, 0.0f), std::fill(p + v.end, p + key_count, 0.0f);
}

// The common case without dropout, cap or bias gradient, as a vectorisable loop.
void row_gradient_plain(const AttentionHead& a, int64_t i, int64_t j0, int64_t key_count, float delta,
                        float* p, float* dp) {
  const Span v = visible_keys(a, i, j0, key_count);
  adjust_scores(a, i, j0, v, p);
  const float lse = a.lse[i * a.lse_stride], scale = a.scale;
  for (int64_t j = v.begin; j < v.end; ++j) {
    const float w = exp_of(p[j] - lse);
    dp[j] = w * (dp[j] - delta) * scale;
    p[j] = w;
  }
  std::fill_n(p, v.begin, 0.0f), std::fill(p + v.end, p + key_count, 0.0f);
  std::fill_n(dp, v.begin, 0.0f), std::fill(dp + v.end, dp + key_count, 0.0f);
}

}  // namespace

int64_t attention_backward_scratch(const AttentionHead& a) { return Sizes(a, table()).total(); }

void attention_backward(const AttentionHead& a, const AttentionHeadBackward& g, float* scratch) {
  const Table& t = table();
  const Sizes z(a, t);
  const Buffers x = lay_out(z, scratch);
  t.pack_a(a.q, a.q_stride, 1, a.rows, a.dim, x.q_a);
  t.pack_a(g.dout, a.out_stride, 1, a.rows, a.dim, x.do_a);
  for (int64_t b = 0; b < z.blocks; ++b) {
    const int64_t i0 = b * z.block, rows = std::min(z.block, a.rows - i0);
    t.pack_b(a.q + i0 * a.q_stride, 1, a.q_stride, a.dim, rows, x.q_b + b * z.b_rows);
    t.pack_b(g.dout + i0 * a.out_stride, 1, a.out_stride, a.dim, rows, x.do_b + b * z.b_rows);
  }
  for (int64_t i = 0; i < a.rows; ++i) {
    x.delta[i] = t.dot(g.dout + i * a.out_stride, a.out + i * a.out_stride, a.dim);
    std::memset(g.dq + i * a.q_stride, 0, sizeof(float) * a.dim);
  }
  const bool plain = a.dropout <= 0.0f && a.soft_cap <= 0.0f && !g.dbias;

  for (int64_t j0 = 0; j0 < a.keys; j0 += kKeyTile) {
    const int64_t tile = std::min(kKeyTile, a.keys - j0);
    t.pack_b(a.k + j0 * a.kv_stride, a.kv_stride, 1, tile, a.dim, x.k_b);
    t.pack_b(a.v + j0 * a.kv_stride, a.kv_stride, 1, tile, a.dim, x.v_b);
    t.pack_b(a.k + j0 * a.kv_stride, 1, a.kv_stride, a.dim, tile, x.k_rows);
    for (int64_t b = 0; b < z.blocks; ++b) {
      const int64_t i0 = b * z.block, rows = std::min(z.block, a.rows - i0);
      const int64_t key_count = count_visible_keys(a, i0, rows, j0, tile);
      if (key_count <= 0) continue;
      t.product(rows, key_count, a.dim, x.q_a + i0 * a.dim, x.k_b, x.p, kKeyTile, false);
      t.product(rows, key_count, a.dim, x.do_a + i0 * a.dim, x.v_b, x.dp, kKeyTile, false);
      for (int64_t i = 0; i < rows; ++i) {
        float *p = x.p + i * kKeyTile, *dp = x.dp + i * kKeyTile;
        if (plain)
          row_gradient_plain(a, i0 + i, j0, key_count, x.delta[i0 + i], p, dp);
        else
          row_gradient(a, g, i0 + i, j0, key_count, x.delta[i0 + i], p, dp);
      }
      t.pack_a(x.p, 1, kKeyTile, key_count, rows, x.panels);
      t.product(key_count, a.dim, rows, x.panels, x.do_b + b * z.b_rows, g.dv + j0 * a.kv_stride, a.kv_stride,
                true);
      t.pack_a(x.dp, 1, kKeyTile, key_count, rows, x.panels);
      t.product(key_count, a.dim, rows, x.panels, x.q_b + b * z.b_rows, g.dk + j0 * a.kv_stride, a.kv_stride,
                true);
      t.pack_a(x.dp, kKeyTile, 1, rows, key_count, x.panels);
      product_panels(t, rows, a.dim, key_count, tile, x.panels, x.k_rows, g.dq + i0 * a.q_stride, a.q_stride);
    }
  }
}

}  // namespace makar::kernels::MAKAR_ISA
