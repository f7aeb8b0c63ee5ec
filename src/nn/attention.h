// Self- and cross-attention layers.
#pragma once
#include <string>

#include "nn/batch.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace makar {

// Inputs of a forward pass, shared by all layers with the same kind of positions.
struct AttentionInputs {
  ops::AttentionBatch self, cross;
  ops::RopeTable rope;
  // Rotates queries for attention to sinks; undefined while all sinks are in the window.
  ops::RopeTable sink_rope;
  Tensor encoded;                         // encoder output for cross-attention; absent if its keys are cached
  Tensor relative;                        // RelativeSpec: the table of distances [distances, width]
  std::vector<int64_t> types;             // kXl: the segment of each row; empty: no segments
  std::vector<int64_t> order, positions;  // kXl: Batch::order, and the positions of its rows
};

class Attention {
 public:
  Attention() = default;
  Attention(ParameterSet& set, const std::string& name, int64_t width, const AttentionSpec& spec,
            const NormSpec& norm);

  // Self-attention over x [N, width].
  Tensor self(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const;
  // Writes the keys and values of an encoded sequence into the cache.
  void cache_source(ForwardContext& f, const Tensor& encoded, size_t slot, int64_t layer) const;
  // Cross-attention from x to in.encoded.
  Tensor cross(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const;

  const AttentionSpec& spec() const { return spec_; }
  ops::AttentionOptions options() const;

  Linear q, k, v, o;
  // LatentSpec: the projections to low rank; k and v project from there to the heads.
  Linear q_latent, kv_latent;
  Linear distance;                      // RelativeSpec::kXl: the keys of distances
  Linear distance_key, distance_query;  // kDisentangled with own_projections

 private:
  struct Rows {
    Tensor query, key, value;  // [N, heads * head_dim]
  };
  Rows plain_rows(Context& ctx, const Tensor& x) const;
  Rows latent_rows(Context& ctx, const Tensor& x, const AttentionInputs& in) const;
  // RelativeSpec: attention with explicit scores, one sequence and head at a time (relative_attention.cpp).
  Tensor relative_mix(ForwardContext& f, const Rows& rows, const AttentionInputs& in, int64_t layer) const;
  // Clips and normalises a query or key [N, heads * head_dim].
  Tensor clip_and_norm(Context& ctx, Tensor x, const Norm& norm, const std::vector<Parameter*>& scale,
                       int64_t heads) const;
  AttentionSpec spec_;
  Norm q_norm_, k_norm_;
  // QkNorm::kEachHead: one parameter [heads, head_dim]; kSeparate: one [head_dim] per head; else none.
  std::vector<Parameter*> q_scale_, k_scale_;
  Parameter* sink_logits_ = nullptr;  // [heads]
  // kXl: biases added to the queries before their products with keys, distances and segments; then the keys
  // of the same and of the other segment.
  Parameter *content_bias_ = nullptr, *distance_bias_ = nullptr, *segment_bias_ = nullptr,
            *segments_ = nullptr;
};

}  // namespace makar
