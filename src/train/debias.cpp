#include "train/debias.h"

#include <cmath>

#include "base/rng.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {
namespace {

constexpr int64_t kAdversaryWidth = 32;

// The identity; the gradient of x is -factor times the gradient of the result.
Tensor reverse_gradient(Context& ctx, const Tensor& x, float factor) {
  const Tensor y = ctx.empty(x.shape());
  ctx.device.scale({ctx.f32(x), ctx.f32(y), x.count(), 1.0f, false});
  if (!ctx.needs(x)) return y;
  ctx.tape->record(y, [ctx, to = Key(x), factor](const Tensor& dy) {
    const auto t = ctx.tape->target(to);
    ctx.device.scale({ctx.f32(dy), ctx.f32(t.buffer), dy.count(), -factor, t.accumulate});
  });
  return y;
}

}  // namespace

Result<GroupWeights> GroupWeights::of(const LabelledTexts& texts, size_t groups, size_t labels) {
  std::vector<double> joint(groups * labels), by_group(groups), by_label(labels);
  for (size_t i = 0; i < texts.size(); ++i) {
    MAKAR_TRY(const LabelledText t, texts.read(i));
    const auto g = static_cast<size_t>(t.group), y = static_cast<size_t>(t.label);
    check(g < groups && y < labels, "every text has a group and a label");
    joint[g * labels + y] += 1, by_group[g] += 1, by_label[y] += 1;
  }
  GroupWeights out;
  out.labels_ = labels;
  const auto all = static_cast<double>(texts.size());
  for (size_t g = 0; g < groups; ++g)
    for (size_t y = 0; y < labels; ++y) {
      const double count = joint[g * labels + y];
      out.weights_.push_back(count > 0 ? static_cast<float>(by_group[g] * by_label[y] / (all * count))
                                       : 1.0f);
    }
  return out;
}

Tensor weighted_cross_entropy(Context& ctx, const Tensor& logits, const std::vector<int64_t>& targets,
                              const std::vector<float>& weights) {
  const Tensor chosen = ops::pick(ctx, ops::log_softmax(ctx, logits), targets);  // [rows]
  const Tensor w = Tensor::from(chosen.shape(), std::span<const float>(weights)).to(ctx.device.memory());
  return ops::scale(ctx, ops::sum(ctx, ops::multiply(ctx, chosen, w)),
                    -1.0f / static_cast<float>(targets.size()));
}

GroupAdversary::GroupAdversary(Model& model, int64_t labels, int64_t groups, const DebiasOptions& options,
                               uint64_t seed)
    : o_(options), labels_(labels) {
  const int64_t in = labels * (o_.sees_label ? 2 : 1);
  uint64_t stream = uint64_t{1} << 33;  // above the streams of the model's parameters and of distill.cpp
  const auto add = [&](const char* name, const Shape& shape, float deviation) {
    Parameter* p = model.parameters().add(name, shape);
    p->auxiliary = true;
    p->value = Tensor::zeros(shape);
    const Rng rng(seed, Purpose::kInit, stream++);
    for (int64_t k = 0; k < p->value.count(); ++k)
      p->value.f32()[k] = deviation * rng.normal(static_cast<uint64_t>(k));
    return p;
  };
  hidden_ = add("adversary.hidden.weight", {kAdversaryWidth, in}, 1.0f / std::sqrt(static_cast<float>(in)));
  hidden_bias_ = add("adversary.hidden.bias", {kAdversaryWidth}, 0.5f);
  output_ = add("adversary.output.weight", {groups, kAdversaryWidth},
                1.0f / std::sqrt(static_cast<float>(kAdversaryWidth)));
}

Tensor GroupAdversary::loss(Context& ctx, const Tensor& logits, const std::vector<int64_t>& labels,
                            const std::vector<int64_t>& groups) const {
  Tensor x = reverse_gradient(ctx, ops::log_softmax(ctx, logits), o_.adversary);
  if (o_.sees_label) {
    Tensor truth = Tensor::zeros(logits.shape());
    for (size_t i = 0; i < labels.size(); ++i)
      truth.f32()[static_cast<int64_t>(i) * labels_ + labels[i]] = 1.0f;
    x = ops::concat(ctx, {x, truth.to(ctx.device.memory())}, -1);
  }
  const Tensor hidden = ops::activate(
      ctx, ops::add(ctx, ops::linear(ctx, x, hidden_->value), hidden_bias_->value), ops::Activation::kTanh);
  return ops::cross_entropy(ctx, ops::linear(ctx, hidden, output_->value), groups);
}

}  // namespace makar
