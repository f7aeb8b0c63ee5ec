// Shared by the forward and backward pass of attention: visible keys and scores.
#pragma once
#include <algorithm>

#include "base/rng.h"
#include "kernels/cpu/isa/math.h"
#include "kernels/cpu/table.h"

namespace makar::kernels::MAKAR_ISA {

struct Span {
  int64_t begin, end;
};

inline int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

constexpr int64_t kFewRows = 16;  // e.g. the query heads of one token that share a key head

// Few rows on a cache of f32 or f16: keys and values are read in place, and only scores need scratch memory.
inline bool reads_in_place(const AttentionHead& a) {
  const auto floats = [](DType type) { return type == DType::kF32 || type == DType::kF16; };
  return a.rows <= kFewRows && a.cache.pages && floats(a.cache.k_type) && floats(a.cache.v_type);
}

// Sizes of the parts of the scratch buffer, in floats.
struct Layout {
  static constexpr int64_t kInPlaceFloats = kFewRows * (kKeyTile + 2);  // if reads_in_place()
  int64_t block;  // q rows per block: a multiple of mr near 32, or kFewRows
  int64_t q_panels, k_panels, v_panels, v_rows, p_panels, rows, sinks;
  Layout(const AttentionHead& a, const Table& t)
      : block(std::max<int64_t>(1, 32 / t.mr) * t.mr),
        q_panels(round_up(a.rows, block) * a.dim),
        k_panels(round_up(kKeyTile, t.nr) * a.dim),
        v_panels(kKeyTile * round_up(a.dim, t.nr)),
        v_rows(a.cache.pages ? kKeyTile * a.dim : 0),
        p_panels(block * kKeyTile),
        rows(a.rows),
        sinks(a.q_sinks ? q_panels : 0) {
    if (reads_in_place(a)) block = kFewRows, q_panels = k_panels = v_panels = v_rows = p_panels = sinks = 0;
  }
  int64_t forward_floats() const {
    return q_panels + k_panels + v_panels + v_rows + block * kKeyTile + p_panels + 2 * rows + sinks;
  }
};

inline bool holds_sinks(const AttentionHead& a, int64_t j0) { return a.sinks > 0 && j0 == 0; }

// How many keys of the tile are visible to any row of [i0, i0 + rows), counted from the tile's start to the
// last visible key; 0 if none is.
inline int64_t count_visible_keys(const AttentionHead& a, int64_t i0, int64_t rows, int64_t j0,
                                  int64_t tile) {
  const int64_t first = a.past + i0 * a.row_step, last = a.past + (i0 + rows - 1) * a.row_step;
  if (a.causal && last < j0) return 0;
  if (a.window > 0 && j0 + tile <= first - a.window + 1 && !holds_sinks(a, j0)) return 0;
  if (a.causal) return std::min(tile, last + 1 - j0);
  return a.window > 0 ? std::clamp<int64_t>(last + a.window - j0, 0, tile) : tile;
}

// The visible keys of row i in the tile that starts at j0, as offsets in [0, key_count). adjust_scores()
// masks keys between the sinks and the window.
inline Span visible_keys(const AttentionHead& a, int64_t i, int64_t j0, int64_t key_count) {
  Span s{0, key_count};
  const int64_t position = a.past + i * a.row_step;
  if (a.causal) s.end = std::clamp<int64_t>(position + 1 - j0, 0, key_count);
  if (!a.causal && a.window > 0) s.end = std::clamp<int64_t>(position + a.window - j0, 0, key_count);
  if (a.window > 0 && !holds_sinks(a, j0))
    s.begin = std::clamp<int64_t>(position - a.window + 1 - j0, 0, s.end);
  return s;
}

inline const float* bias_at(const AttentionHead& a, int64_t i, int64_t j0) {
  return a.bias + i * a.bias_stride + (a.bias_by_key ? j0 : j0 - (a.past + i * a.row_step));
}

// Converts raw products to scores: scale, soft cap, positional bias. Sinks get the bias of the keys right
// before the window.
inline void adjust_scores(const AttentionHead& a, int64_t i, int64_t j0, const Span& visible, float* s) {
  for (int64_t j = visible.begin; j < visible.end; ++j) s[j] *= a.scale;
  if (a.soft_cap > 0.0f) {
    const float inv = 1.0f / a.soft_cap;
    for (int64_t j = visible.begin; j < visible.end; ++j) s[j] = a.soft_cap * tanh_of(s[j] * inv);
  }
  const auto add_bias = [&](int64_t shift, int64_t begin, int64_t end) {
    if (!a.bias) return;
    const float* bias = bias_at(a, i, j0) + shift;
    for (int64_t j = begin; j < end; ++j) s[j] += bias[j];
  };
  if (!holds_sinks(a, j0)) return add_bias(0, visible.begin, visible.end);
  const int64_t position = a.past + i * a.row_step, first = position - a.window + 1,
                sinks = std::min(a.sinks, visible.end);
  add_bias(std::max<int64_t>(0, first - a.sinks), 0, sinks);
  add_bias(0, std::max(sinks, first), visible.end);
  for (int64_t j = sinks; j < std::min(first, visible.end); ++j) s[j] = -INFINITY;
}

// Dropout of weights: a pure function of (seed, step, head, row, key).
inline float keep_factor(const AttentionHead& a, int64_t i, int64_t j) {
  const Rng rng(a.seed, Purpose::kAttentionDropout, a.step);
  const uint64_t index = a.stream << 40 | static_cast<uint64_t>(i) << 20 | static_cast<uint64_t>(j);
  return rng.uniform(index) < a.dropout ? 0.0f : 1.0f / (1.0f - a.dropout);
}
inline void apply_dropout(const AttentionHead& a, int64_t i, int64_t j0, int64_t key_count, float* s) {
  for (int64_t j = 0; j < key_count; ++j)
    if (s[j] != 0.0f) s[j] *= keep_factor(a, i, j0 + j);
}

// C[rows, n] += A B, where the B panels were packed with `depth` k-steps and only the first `k` are used.
inline void product_panels(const Table& t, int64_t rows, int64_t n, int64_t k, int64_t depth, const float* a,
                           const float* b, float* c, int64_t ldc) {
  if (k == depth) return t.product(rows, n, k, a, b, c, ldc, true);
  for (int64_t j = 0; j < n; j += t.nr, b += depth * t.nr)
    t.product(rows, std::min<int64_t>(t.nr, n - j), k, a, b, c + j, ldc, true);
}

int64_t attention_backward_scratch(const AttentionHead& a);
void attention_backward(const AttentionHead& a, const AttentionHeadBackward& g, float* scratch);

}  // namespace makar::kernels::MAKAR_ISA
