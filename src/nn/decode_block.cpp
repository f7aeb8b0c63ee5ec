// A decoding step of a pre-norm block with gated feed-forward in bf16, with weights in bf16 or block types:
// five fused ops instead of a dozen.
#include <algorithm>
#include <vector>

#include "nn/block.h"
#include "ops/bf16.h"

namespace makar {

bool Block::has_fused_step(const ForwardContext& f, const AttentionInputs& in, int64_t layer) const {
  const Context& ctx = f.ops;
  if (!ops::computes_bf16(ctx) || !f.cache || f.record || f.sink_window.sinks > 0 || ctx.tape ||
      ctx.observer || ctx.training || !ctx.row_adapters.empty() || spec_.mixer ||
      f.cache->keys(layer).k_type != DType::kBF16 || in.self.bias.defined())
    return false;
  const AttentionSpec& a = spec_.attention;
  const FeedForwardSpec& g = spec_.feed_forward;
  const bool plain_block = spec_.norm_position == NormPosition::kPre && !spec_.parallel &&
                           !spec_.shared_norm && !spec_.residual_after_norm && spec_.residual_scale == 1.0f &&
                           !spec_.cross && norm1_.is_rms() && norm2_.is_rms();
  const bool plain_attention = a.qk_norm == QkNorm::kNone && a.clip == 0.0f && !a.sink_logits &&
                               !a.rope_values && !a.latent && !a.relative;
  const bool routed = g.experts > 0;
  if (!plain_block || !plain_attention || g.width == 0 || (!routed && (!g.gated || g.gate_limit > 0)))
    return false;
  std::vector<const Linear*> layers = {&attention.q, &attention.k, &attention.v, &attention.o};
  if (!routed)
    for (const Linear FeedForward::Expert::*l :
         {&FeedForward::Expert::gate, &FeedForward::Expert::up, &FeedForward::Expert::down})
      layers.push_back(&(feed_forward.experts[0].*l));
  const auto all = [&](auto&& suits) {
    return std::all_of(layers.begin(), layers.end(), [&](const Linear* l) { return suits(l->plain_type()); });
  };
  if (!all([](DType t) { return t == DType::kBF16; }) && !all(is_block)) return false;
  int64_t at = 0;
  for (const ops::SequenceRows& s : in.self.rows)
    if (s.q_rows != 1 || s.q_start != at++) return false;
  return true;
}

Tensor Block::fused_step(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const {
  Context& ctx = f.ops;
  const Attention& a = attention;
  const ops::PackedLayer layers[] = {a.q.layer(), a.k.layer(), a.v.layer()};
  const auto qkv = ops::normed_linears(ctx, x, norm1_.rms(), layers);
  const auto& rope = a.spec().rope;
  const Tensor mixed = ops::attend_next(ctx, qkv[0], qkv[1], qkv[2], rope ? &*rope : nullptr, in.rope,
                                        f.cache->keys(layer), in.self, a.options());
  const Tensor y = ops::added_linear(ctx, x, mixed, a.o.layer());
  if (spec_.feed_forward.experts > 0) return ops::add(ctx, y, feed_forward(f, norm2_(ctx, y)));
  const FeedForward::Expert& e = feed_forward.experts[0];
  const Tensor inner =
      ops::normed_gate(ctx, y, norm2_.rms(), e.gate.layer(), e.up.layer(), spec_.feed_forward.activation);
  return ops::added_linear(ctx, y, inner, e.down.layer());
}

}  // namespace makar
