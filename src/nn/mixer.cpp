#include "nn/mixer.h"

#include "ops/scan.h"
#include "ops/shape.h"

namespace makar {

using MixerKind = MixerSpec::Kind;

Mixer::Mixer(ParameterSet& set, const std::string& name, int64_t width, const MixerSpec& s) : spec_(s) {
  const int64_t channels = s.conv_channels();
  const int64_t projected = s.kind == MixerKind::kShortConv ? 3 * s.inner
                            : s.kind == MixerKind::kMamba   ? 2 * s.inner
                                                            : s.inner + channels + s.heads;
  in = Linear(set, name + ".in", width, projected, s.bias);
  conv_ = set.add(name + ".conv.weight", {channels, 1, s.taps});
  if (s.conv_bias) conv_bias_ = set.add(name + ".conv.bias", {channels});
  if (s.kind == MixerKind::kMamba) {
    x = Linear(set, name + ".x", s.inner, s.dt_rank + 2 * s.states, false);
    dt = Linear(set, name + ".dt", s.dt_rank, s.inner, true);
    a_log_ = set.add(name + ".a_log", {s.inner, s.states});
    d_ = set.add(name + ".d", {s.inner});
  }
  if (s.kind == MixerKind::kMamba2) {
    dt_bias_ = set.add(name + ".dt_bias", {s.heads});
    a_log_ = set.add(name + ".a_log", {s.heads});
    d_ = set.add(name + ".d", {s.heads});
    NormSpec norm;
    norm.kind = NormSpec::Kind::kRms;
    norm.eps = s.norm_eps;
    norm_ = Norm(set, name + ".norm", s.inner, norm);
  }
  out = Linear(set, name + ".out", s.inner, width, s.bias);
}

Tensor Mixer::conv(ForwardContext& f, const Tensor& t, const AttentionInputs& inputs, int64_t layer) const {
  return ops::short_conv(f.ops, t, conv_->value, conv_bias_ ? conv_bias_->value : Tensor(), inputs.self,
                         f.cache ? f.cache->state_offset(layer) : 0);
}

Tensor Mixer::scan(ForwardContext& f, const Tensor& t, const Tensor& step, const Tensor& b, const Tensor& c,
                   const AttentionInputs& inputs, int64_t layer) const {
  const int64_t offset =
      f.cache ? f.cache->state_offset(layer) + spec_.conv_state() * int64_t{sizeof(float)} : 0;
  return ops::selective_scan(
      f.ops, {t, ops::softplus(f.ops, step), a_log_->value, f.ops.tape ? Tensor() : rates_, b, c, d_->value},
      spec_.groups, inputs.self, offset);
}

void Mixer::pack(Device& device) {
  if (!a_log_) return;
  Context ctx{device};
  rates_ = ops::scan_rates(ctx, a_log_->value);
}

Tensor Mixer::operator()(ForwardContext& f, const Tensor& input, const AttentionInputs& inputs,
                         int64_t layer) const {
  Context& ctx = f.ops;
  const int64_t inner = spec_.inner, shared = spec_.groups * spec_.states;
  const Tensor projected = in(ctx, input);
  if (spec_.kind == MixerKind::kShortConv) {
    const auto p = ops::split(ctx, projected, {inner, inner, inner}, -1);  // b, c, x
    return out(ctx, ops::multiply(ctx, p[1], conv(f, ops::multiply(ctx, p[0], p[2]), inputs, layer)));
  }
  const auto silu = [&](const Tensor& t) { return ops::activate(ctx, t, Activation::kSilu); };
  if (spec_.kind == MixerKind::kMamba) {
    const auto p = ops::split(ctx, projected, {inner, inner}, -1);  // x, gate
    const Tensor t = silu(conv(f, p[0], inputs, layer));
    const auto q = ops::split(ctx, x(ctx, t), {spec_.dt_rank, spec_.states, spec_.states}, -1);
    const Tensor y = scan(f, t, dt(ctx, q[0]), q[1], q[2], inputs, layer);
    return out(ctx, ops::gated(ctx, p[1], y, Activation::kSilu));
  }
  const auto p =
      ops::split(ctx, projected, {inner, spec_.conv_channels(), spec_.heads}, -1);  // gate, x b c, dt
  const auto q = ops::split(ctx, silu(conv(f, p[1], inputs, layer)), {inner, shared, shared}, -1);
  const Tensor y = scan(f, q[0], ops::add(ctx, p[2], dt_bias_->value), q[1], q[2], inputs, layer);
  return out(ctx, norm_(ctx, ops::gated(ctx, p[0], y, Activation::kSilu)));
}

}  // namespace makar
