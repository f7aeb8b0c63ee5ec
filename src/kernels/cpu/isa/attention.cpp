// Fused attention for one query head of one sequence (FlashAttention's online softmax; Dao, 2022).
//
// Keys are processed in tiles of kKeyTile at fixed positions from the start of the sequence. Masked keys have
// weight exactly zero, and adding zero changes no bit, so a row has the same bits in a full prefill, a chunk
// or a decode step.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/isa/attention_block.h"
#include "kernels/cpu/isa/key_tiles.h"
#include "kernels/cpu/isa/sections.h"
#include "kernels/cpu/isa/weighted_sum.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

// One step of the online softmax for one q row over the visible part of a tile; s becomes the weights. Not
// inlined: together with the caller's variables, the constants of exp would not fit the registers.
[[gnu::noinline]] void softmax_step(const Span& visible, float* s, int64_t width, float& m, float& l,
                                    float& alpha) {
  const float top = max_of(s + visible.begin, visible.end - visible.begin);
  const float m_new = top > m ? top : m;
  if (m_new == -INFINITY) {
    std::fill_n(s, width, 0.0f);
    alpha = 1.0f;
    return;
  }
  alpha = exp_down(m - m_new);
  std::fill_n(s, visible.begin, 0.0f);
  for (int64_t j = visible.begin; j < visible.end; ++j) s[j] = exp_down(s[j] - m_new);
  std::fill(s + visible.end, s + width, 0.0f);
  l = madd(l, alpha, sum_of(visible.end, [s](int64_t j) { return s[j]; }));
  m = m_new;
}

void scale_row(float* row, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) row[i] *= factor;
}

}  // namespace

int64_t attention_scratch(const AttentionHead& a) {
  if (reads_in_place(a)) return 0;
  const Layout layout(a, table());
  return layout.forward_floats();
}

void attention_forward(const AttentionHead& a, float* scratch) {
  const Table& t = table();
  const Layout layout(a, t);
  alignas(64) float in_place_scratch[Layout::kInPlaceFloats];
  if (reads_in_place(a)) scratch = in_place_scratch;
  float* q_panels = scratch;
  float* k_panels = q_panels + layout.q_panels;
  float* v_panels = k_panels + layout.k_panels;
  float* v_rows = v_panels + layout.v_panels;
  float* scores = v_rows + layout.v_rows;
  float* p_panels = scores + layout.block * kKeyTile;
  float* m = p_panels + layout.p_panels;
  float* l = m + a.rows;
  float* sink_panels = l + a.rows;

  const bool few = a.rows <= kFewRows;  // the decode case: read in place
  if (!few) t.pack_a(a.q, a.q_stride, 1, a.rows, a.dim, q_panels);
  if (!few && a.q_sinks) t.pack_a(a.q_sinks, a.q_stride, 1, a.rows, a.dim, sink_panels);
  // With few rows, f16 caches are read in place too: widening would take longer than the products.
  const bool cached = a.cache.pages != nullptr;
  const auto in_place = [&](DType type) { return few && cached && type == DType::kF16; };
  const DType k_type = in_place(a.cache.k_type) ? DType::kF16 : DType::kF32,
              v_type = in_place(a.cache.v_type) ? DType::kF16 : DType::kF32;
  const int64_t v_stride = cached ? a.dim : a.kv_stride;
  // Scores of a block of rows, packed or in place, for the first n keys of a tile.
  const auto score = [&](const float* q, const float* panels, int64_t rows, int64_t n, const void* keys) {
    for (int64_t i = 0, parts = ceil_div(rows, t.rows_max); few && i < parts; ++i) {
      const int64_t from = rows * i / parts, to = rows * (i + 1) / parts;
      t.rows(k_type, static_cast<int>(to - from), n, a.dim, q + from * a.q_stride, a.q_stride, keys,
             a.dim * t.nr, scores + from * kKeyTile, kKeyTile, false);
    }
    if (!few) t.product(rows, n, a.dim, panels, static_cast<const float*>(keys), scores, kKeyTile, false);
  };
  std::fill_n(m, a.rows, -INFINITY);
  std::fill_n(l, a.rows, 0.0f);
  for (int64_t i = 0; i < a.rows; ++i) std::memset(a.out + i * a.out_stride, 0, sizeof(float) * a.dim);

  for (int64_t j0 = 0; j0 < a.keys; j0 += kKeyTile) {
    const int64_t tile = std::min(kKeyTile, a.keys - j0);
    int64_t depth = tile;  // keys per V panel
    const void *keys = k_panels, *values = cached ? nullptr : a.v + j0 * a.kv_stride;
    bool ready = false;
    for (int64_t i0 = 0; i0 < a.rows; i0 += layout.block) {
      const int64_t rows = std::min(layout.block, a.rows - i0);
      const int64_t key_count = count_visible_keys(a, i0, rows, j0, tile);
      if (key_count <= 0) continue;
      if (!ready && cached) {
        const int64_t last = a.past + (a.rows - 1) * a.row_step;  // the row with the most visible keys
        if (a.causal) depth = std::min(tile, last + 1 - j0);
        const std::byte* page = a.cache.pages[j0 / kKeyTile];
        keys = page + a.cache.k_offset, values = page + a.cache.v_offset;
        if (k_type != a.cache.k_type)
          keys = read_keys(t, a.cache.k_type, page + a.cache.k_offset, a.dim, depth, k_panels);
        if (v_type != a.cache.v_type)
          values = read_values(t, a.cache.v_type, page + a.cache.v_offset, a.dim, depth, v_rows);
      } else if (!ready) {
        t.pack_b(a.k + j0 * a.kv_stride, a.kv_stride, 1, tile, a.dim, k_panels);
      }
      if (!ready && !few) {
        t.pack_b(static_cast<const float*>(values), 1, v_stride, a.dim, depth, v_panels);
        values = v_panels;
      }
      ready = true;
      score(a.q, q_panels + i0 * a.dim, rows, key_count, keys);
      if (a.q_sinks && holds_sinks(a, j0))
        score(a.q_sinks, sink_panels + i0 * a.dim, rows, std::min(a.sinks, key_count), keys);
      for (int64_t i = 0; i < rows; ++i) {
        float* s = scores + i * kKeyTile;
        const Span visible = visible_keys(a, i0 + i, j0, key_count);
        adjust_scores(a, i0 + i, j0, visible, s);
        float alpha;
        softmax_step(visible, s, key_count, m[i0 + i], l[i0 + i], alpha);
        if (a.dropout > 0.0f) apply_dropout(a, i0 + i, j0, key_count, s);
        if (alpha != 1.0f) scale_row(a.out + (i0 + i) * a.out_stride, a.dim, alpha);
      }
      if (few) {
        const auto add_values = [&](const auto* v) {
          weighted_sum(a.rows,
                       WeightedSum<std::decay_t<decltype(*v)>>{scores, kKeyTile, key_count, v, v_stride,
                                                               a.out, a.out_stride},
                       a.dim);
        };
        v_type == DType::kF16 ? add_values(static_cast<const F16*>(values))
                              : add_values(static_cast<const float*>(values));
        continue;
      }
      t.pack_a(scores, kKeyTile, 1, rows, key_count, p_panels);
      // A product over the first `key_count` keys of a panel needs the panel's full stride.
      product_panels(t, rows, a.dim, key_count, depth, p_panels, static_cast<const float*>(values),
                     a.out + i0 * a.out_stride, a.out_stride);
    }
  }
  for (int64_t i = 0; i < a.rows; ++i) {
    const float inv = l[i] > 0.0f ? 1.0f / l[i] : 0.0f;
    scale_row(a.out + i * a.out_stride, a.dim, inv);
    if (a.lse) a.lse[i * a.lse_stride] = l[i] > 0.0f ? m[i] + log_of(l[i]) : 0.0f;
  }
}

// The normalised weights, from the stored log-sum-exp; computed only on request.
void attention_weights(const AttentionHead& a, float* scratch) {
  const Table& t = table();
  const Layout layout(a, t);
  float* q_panels = scratch;
  float* k_panels = q_panels + layout.q_panels;
  float* scores = k_panels + layout.k_panels + layout.v_panels + layout.v_rows;
  t.pack_a(a.q, a.q_stride, 1, a.rows, a.dim, q_panels);
  for (int64_t j0 = 0; j0 < a.keys; j0 += kKeyTile) {
    const int64_t tile = std::min(kKeyTile, a.keys - j0);
    t.pack_b(a.k + j0 * a.kv_stride, a.kv_stride, 1, tile, a.dim, k_panels);
    for (int64_t i0 = 0; i0 < a.rows; i0 += layout.block) {
      const int64_t rows = std::min(layout.block, a.rows - i0);
      t.product(rows, tile, a.dim, q_panels + i0 * a.dim, k_panels, scores, kKeyTile, false);
      for (int64_t i = 0; i < rows; ++i) {
        float* s = scores + i * kKeyTile;
        const Span visible = visible_keys(a, i0 + i, j0, tile);
        adjust_scores(a, i0 + i, j0, visible, s);
        float* to = a.record + (i0 + i) * a.keys + j0;
        std::fill_n(to, tile, 0.0f);
        for (int64_t j = visible.begin; j < visible.end; ++j)
          to[j] = exp_of(s[j] - a.lse[(i0 + i) * a.lse_stride]);
      }
    }
  }
}

void fill_attention(Table& t) {
  t.attention_scratch = attention_scratch;
  t.attention_forward = attention_forward;
  t.attention_weights = attention_weights;
  t.attention_backward_scratch = attention_backward_scratch;
  t.attention_backward = attention_backward;
}

}  // namespace makar::kernels::MAKAR_ISA
