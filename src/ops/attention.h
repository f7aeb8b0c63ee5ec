// Fused ragged attention: the tokens of all sequences are concatenated, and each row attends within its
// sequence. The T x T weights are computed only on request.
#pragma once
#include <vector>

#include "ops/context.h"

namespace makar::ops {

using kernels::SequenceRows;

struct AttentionOptions {
  int64_t heads = 1, kv_heads = 1, head_dim = 1;
  bool causal = true;
  int64_t window = 0;
  float scale = 1.0f;
  float soft_cap = 0.0f;
  float dropout = 0.0f;
  int64_t sinks = 0;  // with a window: number of first keys that stay visible (kernels::AttentionCached)
};

// A bias that depends on the head and on the distance key - query.
struct DistanceBias {
  std::vector<float> slopes;  // ALiBi (Press et al., 2022): slope[head] * distance
  float factor = 1.0f;        // multiplies the ALiBi bias
  // slope[head] * (index of the key), slope and product rounded to bf16, as in Falcon's training. The index
  // instead of the distance does not change the softmax, but the rounding does.
  bool rounded_by_key = false;
  Tensor table;  // T5: [buckets, heads]; learned
  bool bidirectional = true;
  int64_t max_distance = 128;
  bool defined() const { return !slopes.empty() || table.defined(); }
};

// The T5 bucket of a distance key - query.
int64_t t5_bucket(int64_t distance, bool bidirectional, int64_t buckets, int64_t max_distance);

// The sequences of a batch on the device, and their bias: built once per forward pass, shared by the layers
// with the same bias.
struct AttentionBatch {
  std::vector<SequenceRows> rows;
  Tensor sequences;  // i64 [rows, 6]: `rows` on the device
  Tensor pages;      // with a cache: its page table, i64 [entries] (SequenceRows::first_page points into it)
  int64_t bias_span = 0;
  Tensor bias;  // [heads, 2 * bias_span + 1], by distance from -bias_span on
  bool bias_by_key = false;
  Tensor bias_table, bias_bucket;  // learned bias: its table, and the bucket of each distance
};
// `max_key_distance` > 0: maximum distance of a visible key, which limits the bias table.
AttentionBatch attention_batch(Context& ctx, std::vector<SequenceRows> rows, int64_t max_key_distance = 0);
void add_bias(Context& ctx, AttentionBatch& batch, int64_t heads, const DistanceBias& bias);

// The arguments of attention kernels that do not depend on q, k and v; draws a dropout stream if needed.
kernels::AttentionShape attention_shape(Context& ctx, const AttentionBatch& batch, const AttentionOptions& o);

// q [tokens, heads * head_dim], k and v [kv tokens, kv_heads * head_dim] -> like q. With `weights`, the
// attention maps are written there: one tensor [heads, q_rows, kv_rows] per sequence. `sink_logits` [heads]:
// logits that add to each row's softmax denominator and have no value (gpt-oss).
Tensor attend(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionBatch& batch,
              const AttentionOptions& options, std::vector<Tensor>* weights = nullptr,
              const Tensor& sink_logits = {});
// attend() on a batch that is built for this call; for code with a single layer.
Tensor attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                 const std::vector<SequenceRows>& sequences, const AttentionOptions& options,
                 const DistanceBias& bias = {}, std::vector<Tensor>* weights = nullptr);

// Byte offsets of one layer's keys and values in every cache page. Consecutive heads are `k_head` bytes apart
// for keys and `v_head` for values.
struct CachedKeys {
  int64_t k_offset = 0, k_head = 0, v_offset = 0, v_head = 0;
  DType k_type = DType::kF32, v_type = DType::kF32;
};

// The arguments of cache kernels.
kernels::CacheLayer cache_layer(Context& ctx, const CachedKeys& cache, const AttentionBatch& batch);
// Writes k and v [tokens, kv_heads * head_dim] of the batch's rows into the pages of their sequences.
void store_keys(Context& ctx, const Tensor& k, const Tensor& v, const CachedKeys& cache,
                const AttentionBatch& batch, int64_t kv_heads);
// attend() without a tape, on cached keys and values. `q_sinks`: queries rotated for attention to sinks, if
// positions are rotary.
Tensor attend_cached(Context& ctx, const Tensor& q, const CachedKeys& cache, const AttentionBatch& batch,
                     const AttentionOptions& options, const Tensor& q_sinks = {},
                     const Tensor& sink_logits = {});

}  // namespace makar::ops
