// A norm layer: LayerNorm or RMSNorm.
#pragma once
#include <string>

#include "nn/parameter.h"
#include "nn/spec.h"
#include "ops/elementwise.h"
#include "ops/fused.h"
#include "ops/norm.h"

namespace makar {

class Norm {
 public:
  Norm() = default;
  Norm(ParameterSet& set, const std::string& name, int64_t width, const NormSpec& spec) : spec_(spec) {
    if (spec.affine) weight_ = set.add(name + ".weight", {width});
    if (spec.affine && spec.bias && spec.kind == NormSpec::Kind::kLayer)
      bias_ = set.add(name + ".bias", {width});
    defined_ = true;
  }
  bool defined() const { return defined_; }
  // For fused kernels (ops/fused.h): an RMSNorm with a weight.
  bool is_rms() const { return defined_ && spec_.kind == NormSpec::Kind::kRms && weight_; }
  ops::RmsNorm rms() const { return {weight_->value, spec_.eps, spec_.offset}; }
  Tensor operator()(Context& ctx, const Tensor& x) const {
    const ops::NormWeights n = weights(ctx);
    return n.rms ? ops::rms_norm(ctx, x, n.w, n.eps, n.offset) : ops::layer_norm(ctx, x, n.w, n.b, n.eps);
  }
  // x + addend, and the norm of it.
  ops::NormedSum of_sum(Context& ctx, const Tensor& x, const Tensor& addend) const {
    return ops::add_norm(ctx, x, addend, weights(ctx));
  }

 private:
  ops::NormWeights weights(Context& ctx) const {
    const Tensor w = weight_ ? weight_->value : Tensor();
    if (spec_.kind == NormSpec::Kind::kRms) return {true, w, {}, spec_.eps, spec_.offset};
    const Tensor scale = w.defined() && spec_.offset != 0 ? ops::shift(ctx, w, spec_.offset) : w;
    return {false, scale, bias_ ? bias_->value : Tensor(), spec_.eps};
  }

  NormSpec spec_;
  Parameter *weight_ = nullptr, *bias_ = nullptr;
  bool defined_ = false;
};

}  // namespace makar
