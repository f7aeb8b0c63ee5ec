// Arguments of attention, its cache and rotary positions.
#pragma once
#include <cstddef>

#include "kernels/args/types.h"

namespace makar::kernels {

// Keys are processed in tiles at fixed positions from the start of a sequence. The size of a tile is a
// multiple of every panel width (Table::nr: 8, 12, 16 or 32).
constexpr int64_t kKeyTile = 96;

// Bytes per head of one tile of keys, and of values, in a cache page: f32, f16, or q8_0 with one scale per 32
// dimensions of a token.
constexpr int64_t kQuantKeyBlock = 32;
constexpr int64_t key_blocks(int64_t dim) { return (dim + kQuantKeyBlock - 1) / kQuantKeyBlock; }
constexpr int64_t key_tile_bytes(DType type, int64_t dim) {
  if (type == DType::kQ8_0) return kKeyTile * (dim + 2 * key_blocks(dim));
  return kKeyTile * dim * static_cast<int64_t>(size_of(type));
}
constexpr int64_t value_tile_bytes(DType type, int64_t dim) { return key_tile_bytes(type, dim); }

// One sequence of a ragged batch: its query rows, its key/value rows, the index of the first query among the
// keys (0 without a cache), and with a cache the index of its first page in the page table.
struct SequenceRows {
  int64_t q_start = 0, q_rows = 0;
  int64_t kv_start = 0, kv_rows = 0;
  int64_t past = 0;
  int64_t first_page = 0;
};

struct AttentionShape {
  const SequenceRows* sequences;
  int64_t count;
  int64_t total_q_rows, max_q_rows, max_kv_rows;  // total, and maximum per sequence
  int64_t heads, kv_heads, head_dim;
  bool causal;
  int64_t window;  // > 0: only keys at a distance of less than `window`
  float scale, soft_cap;
  // [heads, 2 * bias_span + 1], by distance key - query from -bias_span on, or by key index; may be null
  const float* bias;
  int64_t bias_span;
  bool bias_by_key;
  float dropout;
  uint64_t seed, step, stream;
};
struct Attention {  // q, out [tokens, heads * head_dim]; k, v [kv tokens, kv_heads * head_dim]
  AttentionShape shape;
  const float *q, *k, *v;
  float *out, *lse;  // lse [tokens, heads]: log-sum-exp of the scores
};
struct AttentionWeights {  // weights [heads, q_rows, kv_rows] of one sequence
  AttentionShape shape;
  const float *q, *k, *v;
  const float* lse;
  float* weights;
  int64_t sequence;
};
struct AttentionBackward {
  AttentionShape shape;
  const float *q, *k, *v, *out, *lse, *dy;
  float *dq, *dk, *dv;  // zeros on entry
  float* dbias;         // [sequences, heads, 2 * bias_span + 1], zeros on entry; may be null
};

// Byte offsets of one layer's keys and values in a cache page. Consecutive heads are k_head bytes apart for
// keys and v_head for values.
struct CacheLayer {
  // The page table; SequenceRows::first_page is the index of a sequence's first page.
  const std::byte* const* pages;
  int64_t k_offset, k_head, v_offset, v_head;
  DType k_type, v_type;
};
// The next decoding step of sequences with one row each: the chosen token follows. Sequences without rows
// (q_rows = 0) stay as they are, except that their token becomes 0.
struct AdvanceRows {
  const int64_t* chosen;  // -1: none; the token becomes 0
  int64_t *tokens, *positions;
  SequenceRows* sequences;
  int64_t count;
};
struct CacheStore {  // stores q_rows rows of k and v from q_start on as keys `past`, past + 1, ...
  const SequenceRows* sequences;
  int64_t count, max_q_rows;
  const float *k, *v;  // [tokens, kv_heads * head_dim]
  int64_t kv_heads, head_dim;
  CacheLayer cache;
};
struct AttentionCached {
  AttentionShape shape;
  const float* q;
  // Attention sinks (Xiao et al., 2023), with a window: the first `sinks` keys, at most one tile, stay
  // visible as if they came right before the window. q_sinks: q rotated to min(its position, sinks + window -
  // 1); null if q has no rotary positions.
  int64_t sinks;
  const float* q_sinks;
  CacheLayer cache;
  float* out;
  float* lse;  // [tokens, heads], or null
};
struct BiasFromTable {  // bias[h, i] = table[bucket[i], h]
  const float* table;
  const int64_t* bucket;
  float* bias;
  int64_t heads, width;
};
struct BiasFromTableBackward {  // dtable[bucket[i], h] += dbias[s, h, i], in order
  const float* dbias;
  const int64_t* bucket;
  float* dtable;
  int64_t sequences, heads, width;
};

// Rotary positions.
struct RopeTableRows {  // cos and sin [rows, half] of positions[i] * frequencies[j], times factor
  const int64_t* positions;
  const float* frequencies;
  float *cos, *sin;
  int64_t rows, half;
  double factor;
};
template <class T>
struct RopeOf {  // x, y [rows, heads * head_dim]
  const T* x;
  const float *cos, *sin;
  T* y;
  int64_t rows, heads, head_dim, rotary;
  bool interleaved;  // pairs (0, 1), (2, 3), ... instead of (0, half), (1, half + 1), ...
  float sign;        // -1: inverse rotation
};
using Rope = RopeOf<float>;
using RopeBf16 = RopeOf<Bf16>;

}  // namespace makar::kernels
