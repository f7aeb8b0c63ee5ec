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

ops::AttentionOptions Attention::options(int64_t window) const {
  return {spec_.heads, spec_.kv_heads, spec_.head_dim, spec_.causal,
          window,      spec_.scale,    spec_.soft_cap, spec_.dropout};
}

Tensor Attention::self(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer,
                       int64_t window) const {
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
    if (in.sink_rope.cos.defined() && window == 0)
      to_sinks = ops::rope(ctx, query, spec_.heads, *spec_.rope, in.sink_rope);
    query = ops::rope(ctx, query, spec_.heads, *spec_.rope, in.rope);
    key = ops::rope(ctx, key, spec_.kv_heads, *spec_.rope, in.rope);
  }
  std::vector<ops::SequenceRows> rows;
  Tensor mixed;
  if (f.cache) {
    check(!ctx.tape, "a cache is for inference: no tape");
    std::vector<size_t> slots;
    std::vector<KvCache::NewRows> written;
    for (const Sequence& s : in.batch->sequences) {
      written.push_back({s.slot, s.past, s.start, s.length});
      slots.push_back(s.slot);
      rows.push_back({s.start, s.length, 0, s.past + s.length, s.past});
    }
    f.cache->write(ctx.pool, layer, written, key, value);
    ops::AttentionOptions how = options(window);
    if (f.stream.sinks > 0 && window == 0) how.sinks = f.stream.sinks, how.window = f.stream.window;
    mixed = ops::attention_cached(ctx, query, f.cache->keys(layer, slots), rows, how, in.bias, to_sinks);
  } else {
    for (const Sequence& s : in.batch->sequences)
      rows.push_back({s.start, s.length, s.start, s.length - s.unseen, 0});
    std::vector<Tensor>* weights = nullptr;
    if (f.record && f.record->attention) {
      auto& map = f.record->attentions.emplace_back();
      if (f.record->wants_attention(layer)) weights = &map;
    }
    mixed = ops::attention(ctx, query, key, value, rows, options(window), in.bias, weights);
  }
  return o(ctx, mixed);
}

void Attention::remember(ForwardContext& f, const Tensor& encoded, size_t slot, int64_t layer) const {
  f.cache->write_cross(f.ops.pool, slot, layer, k(f.ops, encoded), v(f.ops, encoded));
}

Tensor Attention::cross(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const {
  Context& ctx = f.ops;
  const Tensor query = q(ctx, x);
  const auto& sequences = in.batch->sequences;
  std::vector<ops::SequenceRows> rows;
  if (f.cache) {
    std::vector<size_t> slots;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const size_t slot = sequences[i].slot;
      if (!f.cache->has_cross(slot, layer)) {
        check(in.encoded.defined(), "cross-attention needs the encoder's output first");
        const Sequence& e = in.encoder_batch->sequences[i];
        remember(f, in.encoded.slice(e.start, e.start + e.length), slot, layer);
      }
      slots.push_back(slot);
      rows.push_back({sequences[i].start, sequences[i].length, 0, f.cache->cross_length(slot), 0});
    }
    return o(ctx, ops::attention_cached(ctx, query, f.cache->cross_keys(layer, slots), rows, options(0)));
  }
  const Tensor key = k(ctx, in.encoded), value = v(ctx, in.encoded);
  check(in.encoder_batch->sequences.size() == sequences.size(), "one encoder sequence a decoder sequence");
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& e = in.encoder_batch->sequences[i];
    rows.push_back({sequences[i].start, sequences[i].length, e.start, e.length, 0});
  }
  std::vector<Tensor>* weights = nullptr;
  if (f.record && f.record->attention) {
    auto& map = f.record->cross_attentions.emplace_back();
    if (f.record->wants_attention(layer)) weights = &map;
  }
  return o(ctx, ops::attention(ctx, query, key, value, rows, options(0), {}, weights));
}

}  // namespace makar
