// Fused ragged attention: tokens of all sequences laid end to end, each row attends inside its own sequence.
// The T x T weights never exist unless someone asks to record them.
#pragma once
#include <vector>

#include "ops/context.h"

namespace makar::ops {

// One sequence of a ragged batch: its query rows, its key/value rows, and the index of the first query among
// the keys (0 without a cache).
struct SequenceRows {
  int64_t q_start = 0, q_rows = 0;
  int64_t kv_start = 0, kv_rows = 0;
  int64_t past = 0;
};

struct AttentionOptions {
  int64_t heads = 1, kv_heads = 1, head_dim = 1;
  bool causal = true;
  int64_t window = 0;
  float scale = 1.0f;
  float soft_cap = 0.0f;
  float dropout = 0.0f;
  int64_t sinks = 0;  // with a window: the first keys stay in sight, as kernels::AttentionHead says
};

// A bias that depends on the head and on the distance key - query.
struct DistanceBias {
  std::vector<float> slopes;  // ALiBi (Press et al., 2022): slope[head] * distance
  float factor = 1.0f;        // on the ALiBi bias
  // slope[head] * (index of the key), slope and product rounded to bf16: how Falcon was trained. Softmax does
  // not see the difference between key and distance, but it sees the rounding.
  bool rounded_by_key = false;
  Tensor table;  // T5: [buckets, heads]; learned
  bool bidirectional = true;
  int64_t max_distance = 128;
  bool defined() const { return !slopes.empty() || table.defined(); }
};

// The T5 bucket of a distance key - query.
int64_t t5_bucket(int64_t distance, bool bidirectional, int64_t buckets, int64_t max_distance);

// q [tokens, heads * head_dim], k and v [kv tokens, kv_heads * head_dim] -> like q. With `weights`, the
// attention maps are written there: one tensor [heads, q_rows, kv_rows] a sequence.
Tensor attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                 const std::vector<SequenceRows>& sequences, const AttentionOptions& options,
                 const DistanceBias& bias = {}, std::vector<Tensor>* weights = nullptr);

// Where a layer's keys and values stand in a cache: for each sequence its pages (kernels::KeyPages), the same
// offsets in all of them, in bytes. A head's keys are `k_head` bytes after those of the head before, its
// values `v_head`.
struct CachedKeys {
  std::vector<const std::byte* const*> pages;
  int64_t k_offset = 0, k_head = 0, v_offset = 0, v_head = 0;
  DType k_type = DType::kF32, v_type = DType::kF32;
};

// The same without a tape, each sequence with its own keys and values in a cache. `q_sinks` is how the
// queries look at sinks, where positions are turned into q.
Tensor attention_cached(Context& ctx, const Tensor& q, const CachedKeys& cache,
                        const std::vector<SequenceRows>& sequences, const AttentionOptions& options,
                        const DistanceBias& bias = {}, const Tensor& q_sinks = {});

}  // namespace makar::ops
