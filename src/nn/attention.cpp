#include "nn/attention.h"

#include "ops/shape.h"

namespace makar {

Attention::Attention(ParameterSet& set, const std::string& name, int64_t width, const AttentionSpec& spec,
                     const NormSpec& norm)
    : q(set, name + ".q", width, spec.heads * spec.head_dim, spec.qkv_bias),
      k(set, name + ".k", width, spec.kv_heads * spec.head_dim, spec.qkv_bias),
      v(set, name + ".v", width, spec.kv_heads * spec.head_dim, spec.qkv_bias),
      o(set, name + ".o", spec.heads * spec.head_dim, width, spec.out_bias),
      spec_(spec) {
  if (spec.qk_norm) {
    q_norm_ = Norm(set, name + ".q_norm", spec.head_dim, norm);
    k_norm_ = Norm(set, name + ".k_norm", spec.head_dim, norm);
  }
}

ops::AttentionOptions Attention::options() const {
  return {spec_.heads,  spec_.kv_heads, spec_.head_dim, spec_.causal,
          spec_.window, spec_.scale,    spec_.soft_cap, spec_.dropout};
}

Tensor Attention::self(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const {
  Context& ctx = f.ops;
  std::vector<Tensor> three = Linear::together(ctx, x, {&q, &k, &v});
  Tensor query = std::move(three[0]), key = std::move(three[1]), value = std::move(three[2]);
  if (q_norm_.defined()) {
    const int64_t rows = x.dim(0), dim = spec_.head_dim;
    const auto by_head = [&](const Norm& norm, const Tensor& t, int64_t heads) {
      return ops::reshape(ctx, norm(ctx, ops::reshape(ctx, t, {rows * heads, dim})), {rows, heads * dim});
    };
    query = by_head(q_norm_, query, spec_.heads);
    key = by_head(k_norm_, key, spec_.kv_heads);
  }
  Tensor to_sinks;
  if (spec_.rope) {
    if (in.sink_rope.cos.defined() && spec_.window == 0)
      to_sinks = ops::rope(ctx, query, spec_.heads, *spec_.rope, in.sink_rope);
    query = ops::rope(ctx, query, spec_.heads, *spec_.rope, in.rope);
    key = ops::rope(ctx, key, spec_.kv_heads, *spec_.rope, in.rope);
  }
  Tensor mixed;
  if (f.cache) {
    check(!ctx.tape, "a cache is for inference: no tape");
    ops::AttentionOptions how = options();
    if (f.stream.sinks > 0 && spec_.window == 0) how.sinks = f.stream.sinks, how.window = f.stream.window;
    const ops::CachedKeys keys = f.cache->keys(layer);
    ops::store_keys(ctx, key, value, keys, in.self, spec_.kv_heads);
    mixed = ops::attend_cached(ctx, query, keys, in.self, how, to_sinks);
  } else {
    std::vector<Tensor>* weights = nullptr;
    if (f.record && f.record->attention) {
      auto& map = f.record->attentions.emplace_back();
      if (f.record->wants_attention(layer)) weights = &map;
    }
    mixed = ops::attend(ctx, query, key, value, in.self, options(), weights);
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
