#include "nn/block.h"

#include "ops/bf16.h"

namespace makar {

Block::Block(ParameterSet& set, const std::string& name, int64_t width, const BlockSpec& spec,
             const NormSpec& norm)
    : spec_(spec) {
  if (spec.recurrent) {
    recurrent = RecurrentLayer(set, name, width, spec);
    return;
  }
  if (spec.alignment) {
    alignment = SourceAttention(set, name + ".align", width, spec);
    return;
  }
  if (spec.mixer)
    mixer = Mixer(set, name + ".mixer", width, *spec.mixer);
  else
    attention = Attention(set, name + ".attn", width, spec.attention, norm);
  const bool norm_before = spec.norm_position != NormPosition::kAfter;
  if (norm_before && spec.attention_norm) norm1_ = Norm(set, name + ".norm1", width, norm);
  if (spec.cross) {
    cross = Attention(set, name + ".cross", width, *spec.cross, norm);
    norm_cross_ = Norm(set, name + ".norm_cross", width, norm);
  }
  const bool has_feed_forward = spec.feed_forward.width > 0;
  if (has_feed_forward) feed_forward = FeedForward(set, name + ".ffn", width, spec.feed_forward);
  if (norm_before && has_feed_forward && !spec.shared_norm) norm2_ = Norm(set, name + ".norm2", width, norm);
  if (spec.norm_position == NormPosition::kSandwich || !norm_before) {
    norm1_after_ = Norm(set, name + ".norm1_after", width, norm);
    norm2_after_ = Norm(set, name + ".norm2_after", width, norm);
  }
}

// Residual, norms and dropout around one sublayer. A norm that the block does not have is left out.
template <class F>
Residual Block::sublayer(ForwardContext& f, const Residual& x, const Norm& norm, const Norm& after,
                         const Norm* next, F&& body) const {
  Context& ctx = f.ops;
  if (spec_.norm_position == NormPosition::kPost)
    return {norm(ctx, ops::add(ctx, x.value, ops::dropout(ctx, body(x.value), spec_.dropout))), {}};
  const Tensor normed = x.normed.defined() ? x.normed : norm.defined() ? norm(ctx, x.value) : x.value;
  Tensor y = body(normed);
  if (after.defined()) y = after(ctx, y);
  if (spec_.residual_scale != 1.0f) y = ops::scale(ctx, y, spec_.residual_scale);
  const Tensor &to = spec_.residual_after_norm ? normed : x.value,
               addend = ops::dropout(ctx, y, spec_.dropout);
  if (!next || !next->defined()) return {ops::add(ctx, to, addend), {}};
  const ops::NormedSum sum = next->of_sum(ctx, to, addend);
  return {sum.sum, sum.normed};
}

const Norm* Block::first_norm() const {
  return !spec_.parallel && spec_.norm_position != NormPosition::kPost && norm1_.defined() ? &norm1_
                                                                                           : nullptr;
}

void Block::cache_source(ForwardContext& f, const Tensor& encoded, size_t slot, int64_t layer) const {
  if (spec_.recurrent || spec_.alignment)
    write_source(f, encoded, spec_.attention, slot, layer);
  else
    cross.cache_source(f, encoded, slot, layer);
}

Residual Block::operator()(ForwardContext& f, const Residual& residual, const AttentionInputs& in,
                           int64_t layer, const Norm* next) const {
  Context& ctx = f.ops;
  const Tensor& x = residual.value;
  if (spec_.recurrent || spec_.alignment) {
    // Only attention to a source has weights to record.
    if (f.record && f.record->attention) {
      f.record->attentions.emplace_back();
      if (spec_.cross) f.record->cross_attentions.emplace_back();
    }
    const Tensor y = spec_.recurrent ? recurrent(f, x, in, layer) : alignment(f, x, in, layer);
    const Tensor out = ops::dropout(ctx, y, spec_.dropout);
    return {spec_.recurrent && spec_.recurrent->residual ? ops::add(ctx, out, ops::cast_to_f32(ctx, x)) : out,
            {}};
  }
  if (has_fused_step(f, in, layer)) return {fused_step(f, x, in, layer), {}};
  const auto attend = [&](const Tensor& t) {
    return spec_.mixer ? mixer(f, t, in, layer) : attention.self(f, t, in, layer);
  };
  if (spec_.parallel) {
    const Tensor normed = norm1_(ctx, x);
    const Tensor a = ops::dropout(ctx, attend(normed), spec_.dropout);
    const Tensor b =
        ops::dropout(ctx, feed_forward(f, norm2_.defined() ? norm2_(ctx, x) : normed), spec_.dropout);
    return {ops::add(ctx, ops::add(ctx, a, b), x), {}};
  }
  const bool has_feed_forward = spec_.feed_forward.width > 0;
  const Norm* after_cross = has_feed_forward ? &norm2_ : next;
  Residual y = sublayer(f, residual, norm1_, norm1_after_, spec_.cross ? &norm_cross_ : after_cross, attend);
  if (spec_.cross)
    y = sublayer(f, y, norm_cross_, Norm(), after_cross,
                 [&](const Tensor& t) { return cross.cross(f, t, in, layer); });
  if (!has_feed_forward) return y;
  return sublayer(f, y, norm2_, norm2_after_, next, [&](const Tensor& t) { return feed_forward(f, t); });
}

}  // namespace makar
