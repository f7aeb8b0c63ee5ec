#include "nn/scalar_mix.h"

#include "ops/bf16.h"
#include "ops/elementwise.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {

ScalarMix::ScalarMix(ParameterSet& set, const std::string& name, int64_t layers, bool learned)
    : layers_(layers) {
  if (!learned) return;
  weight_ = set.add(name + ".weight", {layers});
  scale_ = set.add(name + ".scale", {1});
}

Tensor ScalarMix::operator()(Context& ctx, const std::vector<Tensor>& states) const {
  check(static_cast<int64_t>(states.size()) == layers_, "one state per layer of the mix");
  const Tensor s = weight_ ? ops::reshape(ctx, weight_->value, {1, layers_}) : ctx.zeros({1, layers_});
  Tensor shares = ops::reshape(ctx, ops::softmax(ctx, s), {layers_, 1});
  if (scale_) {
    const Tensor gamma = ops::reshape(ctx, scale_->value, {1, 1});
    shares = ops::multiply(ctx, shares, ops::gather_rows(ctx, gamma, std::vector<int64_t>(states.size(), 0)));
  }
  Tensor out;
  for (size_t j = 0; j < states.size(); ++j) {
    const auto rows = static_cast<size_t>(states[j].dim(0));
    const Tensor share = ops::gather_rows(ctx, shares, std::vector<int64_t>(rows, static_cast<int64_t>(j)));
    const Tensor part = ops::scale_rows(ctx, ops::cast_to_f32(ctx, states[j]),
                                        ops::reshape(ctx, share, {static_cast<int64_t>(rows)}));
    out = out.defined() ? ops::add(ctx, out, part) : part;
  }
  return out;
}

}  // namespace makar
