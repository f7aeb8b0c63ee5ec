#include "nn/attention.h"

#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar {

Attention::Attention(ParameterSet& set, const std::string& name, int64_t width, const AttentionSpec& spec,
                     const NormSpec& norm)
    : q(set, name + ".q", width, spec.heads * spec.head_dim, spec.qkv_bias),
      k(set, name + ".k", width, spec.kv_heads * spec.head_dim, spec.qkv_bias),
      v(set, name + ".v", width, spec.kv_heads * spec.head_dim, spec.qkv_bias),
      o(set, name + ".o", spec.heads * spec.head_dim, width, spec.out_bias),
      spec_(spec) {
  const bool whole = spec.qk_norm == QkNorm::kWhole;
  NormSpec inner = norm;
  if (spec.qk_norm == QkNorm::kEachHead) {
    q_scale_ = set.add(name + ".q_norm.weight", {spec.heads, spec.head_dim});
    k_scale_ = set.add(name + ".k_norm.weight", {spec.kv_heads, spec.head_dim});
    inner.affine = false;
  }
  if (spec.qk_norm != QkNorm::kNone) {
    q_norm_ = Norm(set, name + ".q_norm", whole ? spec.heads * spec.head_dim : spec.head_dim, inner);
    k_norm_ = Norm(set, name + ".k_norm", whole ? spec.kv_heads * spec.head_dim : spec.head_dim, inner);
  }
  if (spec.sinks) sinks_ = set.add(name + ".sinks", {spec.heads});
}

ops::AttentionOptions Attention::options() const {
  return {spec_.heads,  spec_.kv_heads, spec_.head_dim, spec_.causal,
          spec_.window, spec_.scale,    spec_.soft_cap, spec_.dropout};
}

Tensor Attention::prepared(Context& ctx, Tensor x, const Norm& norm, const Parameter* scale,
                           int64_t heads) const {
  if (spec_.clip > 0) x = ops::clamp(ctx, x, -spec_.clip, spec_.clip);
  if (!norm.defined()) return x;
  if (spec_.qk_norm == QkNorm::kWhole) return norm(ctx, x);
  const int64_t rows = x.dim(0), width = x.dim(1);
  x = ops::reshape(ctx, norm(ctx, ops::reshape(ctx, x, {rows * heads, spec_.head_dim})), {rows, width});
  return scale ? ops::multiply(ctx, x, ops::reshape(ctx, scale->value, {width})) : x;
}

Tensor Attention::self(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const {
  Context& ctx = f.ops;
  std::vector<Tensor> three = Linear::together(ctx, x, {&q, &k, &v});
  Tensor query = std::move(three[0]), key = std::move(three[1]), value = std::move(three[2]);
  query = prepared(ctx, query, q_norm_, q_scale_, spec_.heads);
  key = prepared(ctx, key, k_norm_, k_scale_, spec_.kv_heads);
  if (spec_.clip > 0) value = ops::clamp(ctx, value, -spec_.clip, spec_.clip);
  Tensor to_sinks;
  if (spec_.rope) {
    if (in.sink_rope.cos.defined() && spec_.window == 0)
      to_sinks = ops::rope(ctx, query, spec_.heads, *spec_.rope, in.sink_rope);
    query = ops::rope(ctx, query, spec_.heads, *spec_.rope, in.rope);
    key = ops::rope(ctx, key, spec_.kv_heads, *spec_.rope, in.rope);
  }
  const Tensor sinks = sinks_ ? sinks_->value : Tensor();
  Tensor mixed;
  if (f.cache) {
    check(!ctx.tape, "a cache is for inference: no tape");
    ops::AttentionOptions how = options();
    if (f.stream.sinks > 0 && spec_.window == 0) how.sinks = f.stream.sinks, how.window = f.stream.window;
    const ops::CachedKeys keys = f.cache->keys(layer);
    ops::store_keys(ctx, key, value, keys, in.self, spec_.kv_heads);
    mixed = ops::attend_cached(ctx, query, keys, in.self, how, to_sinks, sinks);
  } else {
    std::vector<Tensor>* weights = nullptr;
    if (f.record && f.record->attention) {
      auto& map = f.record->attentions.emplace_back();
      if (f.record->wants_attention(layer)) weights = &map;
    }
    mixed = ops::attend(ctx, query, key, value, in.self, options(), weights, sinks);
  }
  return o(ctx, mixed);
}

void Attention::remember(ForwardContext& f, const Tensor& encoded, size_t slot, int64_t layer) const {
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
