#include "nn/attention.h"

#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar {

Attention::Attention(ParameterSet& set, const std::string& name, int64_t width, const AttentionSpec& spec,
                     const NormSpec& norm)
    : spec_(spec) {
  if (spec.latent) {
    const LatentSpec& l = *spec.latent;
    const int64_t rotary = spec.rope->rotary;
    NormSpec latent_norm = norm;
    latent_norm.eps = l.norm_eps;
    if (l.query_rank > 0) {
      q_latent = Linear(set, name + ".q_latent", width, l.query_rank, spec.qkv_bias);
      q_norm_ = Norm(set, name + ".q_norm", l.query_rank, latent_norm);
    }
    q = Linear(set, name + ".q", l.query_rank > 0 ? l.query_rank : width, spec.heads * spec.head_dim, false);
    kv_latent = Linear(set, name + ".kv_latent", width, l.rank + rotary, spec.qkv_bias);
    k_norm_ = Norm(set, name + ".kv_norm", l.rank, latent_norm);
    k = Linear(set, name + ".k", l.rank, spec.heads * (spec.head_dim - rotary), false);
    v = Linear(set, name + ".v", l.rank, spec.heads * l.value_dim, false);
    o = Linear(set, name + ".o", spec.heads * l.value_dim, width, spec.out_bias);
    return;
  }
  q = Linear(set, name + ".q", width, spec.heads * spec.head_dim, spec.qkv_bias);
  k = Linear(set, name + ".k", width, spec.kv_heads * spec.head_dim, spec.qkv_bias);
  v = Linear(set, name + ".v", width, spec.kv_heads * spec.head_dim, spec.qkv_bias);
  o = Linear(set, name + ".o", spec.heads * spec.head_dim, width, spec.out_bias);
  const bool over_all_heads = spec.qk_norm == QkNorm::kWhole;
  NormSpec inner = norm;
  if (spec.qk_norm == QkNorm::kEachHead) {
    q_scale_ = {set.add(name + ".q_norm.weight", {spec.heads, spec.head_dim})};
    k_scale_ = {set.add(name + ".k_norm.weight", {spec.kv_heads, spec.head_dim})};
    inner.affine = false;
  } else if (spec.qk_norm == QkNorm::kSeparate) {
    for (int64_t h = 0; h < spec.heads; ++h)
      q_scale_.push_back(set.add(name + ".q_norm." + std::to_string(h) + ".weight", {spec.head_dim}));
    for (int64_t h = 0; h < spec.kv_heads; ++h)
      k_scale_.push_back(set.add(name + ".k_norm." + std::to_string(h) + ".weight", {spec.head_dim}));
    inner.affine = false;
  }
  if (spec.qk_norm != QkNorm::kNone) {
    q_norm_ = Norm(set, name + ".q_norm", over_all_heads ? spec.heads * spec.head_dim : spec.head_dim, inner);
    k_norm_ =
        Norm(set, name + ".k_norm", over_all_heads ? spec.kv_heads * spec.head_dim : spec.head_dim, inner);
  }
  if (spec.relative && spec.relative->kind == RelativeSpec::Kind::kXl) {
    distance = Linear(set, name + ".distance", width, spec.heads * spec.head_dim, false);
    content_bias_ = set.add(name + ".content_bias", {spec.heads, spec.head_dim});
    distance_bias_ = set.add(name + ".distance_bias", {spec.heads, spec.head_dim});
    segment_bias_ = set.add(name + ".segment_bias", {spec.heads, spec.head_dim});
    segments_ = set.add(name + ".segments", {2, spec.heads * spec.head_dim});
  }
  if (spec.relative && spec.relative->own_projections) {
    if (spec.relative->content_to_position)
      distance_key = Linear(set, name + ".distance_key", width, spec.heads * spec.head_dim, true);
    if (spec.relative->position_to_content)
      distance_query = Linear(set, name + ".distance_query", width, spec.heads * spec.head_dim, true);
  }
  if (spec.sink_logits) sink_logits_ = set.add(name + ".sinks", {spec.heads});
}

ops::AttentionOptions Attention::options() const {
  return {spec_.heads,  spec_.kv_heads, spec_.head_dim, spec_.causal,
          spec_.window, spec_.scale,    spec_.soft_cap, spec_.dropout};
}

Tensor Attention::clip_and_norm(Context& ctx, Tensor x, const Norm& norm,
                                const std::vector<Parameter*>& scale, int64_t heads) const {
  if (spec_.clip > 0) x = ops::clamp(ctx, x, -spec_.clip, spec_.clip);
  if (!norm.defined()) return x;
  if (spec_.qk_norm == QkNorm::kWhole) return norm(ctx, x);
  const int64_t rows = x.dim(0), width = x.dim(1);
  x = ops::reshape(ctx, norm(ctx, ops::reshape(ctx, x, {rows * heads, spec_.head_dim})), {rows, width});
  if (scale.empty()) return x;
  std::vector<Tensor> weights;
  for (const Parameter* p : scale) weights.push_back(p->value);
  const Tensor scales = weights.size() > 1 ? ops::concat(ctx, weights, 0) : weights[0];
  return ops::multiply(ctx, x, ops::reshape(ctx, scales, {width}));
}

Attention::Rows Attention::plain_rows(Context& ctx, const Tensor& x) const {
  std::vector<Tensor> qkv = Linear::together(ctx, x, {&q, &k, &v});
  Rows out{clip_and_norm(ctx, qkv[0], q_norm_, q_scale_, spec_.heads),
           clip_and_norm(ctx, qkv[1], k_norm_, k_scale_, spec_.kv_heads), qkv[2]};
  if (spec_.clip > 0) out.value = ops::clamp(ctx, out.value, -spec_.clip, spec_.clip);
  return out;
}

// The files have a head's rotated dimensions last; here they are first, as in every other family. Values are
// padded with zeros to the size of keys.
Attention::Rows Attention::latent_rows(Context& ctx, const Tensor& x, const AttentionInputs& in) const {
  const int64_t rows = x.dim(0), heads = spec_.heads, dim = spec_.head_dim, rotary = spec_.rope->rotary;
  const LatentSpec& l = *spec_.latent;
  std::vector<Tensor> projected = Linear::together(ctx, x, {q_latent.defined() ? &q_latent : &q, &kv_latent});
  if (q_latent.defined()) projected[0] = q(ctx, q_norm_(ctx, projected[0]));
  const auto query_parts =
      ops::split(ctx, ops::reshape(ctx, projected[0], {rows * heads, dim}), {dim - rotary, rotary}, -1);
  const auto latent_parts = ops::split(ctx, projected[1], {l.rank, rotary}, -1);
  const std::vector<Tensor> keys_and_values = Linear::together(ctx, k_norm_(ctx, latent_parts[0]), {&k, &v});
  const Tensor head_key = ops::reshape(ctx, keys_and_values[0], {rows * heads, dim - rotary}),
               head_value = ops::reshape(ctx, keys_and_values[1], {rows * heads, l.value_dim});
  std::vector<int64_t> row_of(static_cast<size_t>(rows * heads));
  for (size_t i = 0; i < row_of.size(); ++i) row_of[i] = static_cast<int64_t>(i) / heads;
  const Tensor shared =
      ops::gather_rows(ctx, ops::rope(ctx, latent_parts[1], 1, *spec_.rope, in.rope), row_of);
  const auto join_parts = [&](const Tensor& first, const Tensor& second) {
    return ops::reshape(ctx, ops::concat(ctx, {first, second}, -1), {rows, heads * dim});
  };
  const Tensor padding = l.value_dim < dim ? ctx.zeros({rows * heads, dim - l.value_dim}) : Tensor();
  return {ops::rope(ctx, join_parts(query_parts[1], query_parts[0]), heads, *spec_.rope, in.rope),
          join_parts(shared, head_key),
          padding.defined() ? join_parts(head_value, padding)
                            : ops::reshape(ctx, head_value, {rows, heads * dim})};
}

Tensor Attention::self(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const {
  Context& ctx = f.ops;
  if (spec_.relative) return o(ctx, relative_mix(f, plain_rows(ctx, x), in, layer));
  auto [query, key, value] = spec_.latent ? latent_rows(ctx, x, in) : plain_rows(ctx, x);
  Tensor sink_query;
  if (spec_.rope && !spec_.latent) {
    if (in.sink_rope.cos.defined() && spec_.window == 0)
      sink_query = ops::rope(ctx, query, spec_.heads, *spec_.rope, in.sink_rope);
    query = ops::rope(ctx, query, spec_.heads, *spec_.rope, in.rope);
    key = ops::rope(ctx, key, spec_.kv_heads, *spec_.rope, in.rope);
    if (spec_.rope_values) value = ops::rope(ctx, value, spec_.kv_heads, *spec_.rope, in.rope);
  }
  const Tensor sink_logits = sink_logits_ ? sink_logits_->value : Tensor();
  Tensor mixed;
  if (f.cache) {
    check(!ctx.tape, "a cache is for inference: no tape");
    ops::AttentionOptions cached_options = options();
    if (f.sink_window.sinks > 0 && spec_.window == 0)
      cached_options.sinks = f.sink_window.sinks, cached_options.window = f.sink_window.window;
    const ops::CachedKeys keys = f.cache->keys(layer);
    ops::store_keys(ctx, key, value, keys, in.self, spec_.kv_heads);
    mixed = ops::attend_cached(ctx, query, keys, in.self, cached_options, sink_query, sink_logits);
  } else {
    std::vector<Tensor>* weights = nullptr;
    if (f.record && f.record->attention) {
      auto& map = f.record->attentions.emplace_back();
      if (f.record->wants_attention(layer)) weights = &map;
    }
    if (f.record && f.record->attention_inputs)
      f.record->queries.push_back(query), f.record->keys.push_back(key);
    mixed = ops::attend(ctx, query, key, value, in.self, options(), weights, sink_logits);
  }
  if (spec_.latent && spec_.latent->value_dim < spec_.head_dim) {
    const int64_t rows = x.dim(0), value_dim = spec_.latent->value_dim;
    const auto parts = ops::split(ctx, ops::reshape(ctx, mixed, {rows * spec_.heads, spec_.head_dim}),
                                  {value_dim, spec_.head_dim - value_dim}, -1);
    mixed = ops::reshape(ctx, parts[0], {rows, spec_.heads * value_dim});
  }
  return o(ctx, mixed);
}

void Attention::cache_source(ForwardContext& f, const Tensor& encoded, size_t slot, int64_t layer) const {
  Context& ctx = f.ops;
  const Tensor key = k(ctx, encoded), value = v(ctx, encoded);
  f.cache->begin_cross(slot, layer, key.dim(0));
  ops::AttentionBatch source = ops::attention_batch(ctx, {{0, key.dim(0), 0, key.dim(0), 0, 0}});
  source.pages = ctx.upload(f.cache->cross_page_addresses(slot));
  ops::store_keys(ctx, key, value, f.cache->keys(layer), source, spec_.kv_heads);
}

Tensor Attention::cross(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const {
  Context& ctx = f.ops;
  const Tensor query = q(ctx, x);
  if (f.cache) return o(ctx, ops::attend_cached(ctx, query, f.cache->keys(layer), in.cross, options()));
  const Tensor key = k(ctx, in.encoded), value = v(ctx, in.encoded);
  std::vector<Tensor>* weights = nullptr;
  if (f.record && f.record->attention) {
    auto& map = f.record->cross_attentions.emplace_back();
    if (f.record->wants_attention(layer)) weights = &map;
  }
  return o(ctx, ops::attend(ctx, query, key, value, in.cross, options(), weights));
}

}  // namespace makar
