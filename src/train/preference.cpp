#include "train/preference.h"

#include <cmath>

#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar {
namespace {

using ops::Activation;

Tensor margin(Context& ctx, const PreferencePairs& p) {
  return ops::subtract(ctx, ops::subtract(ctx, p.policy_chosen, p.policy_rejected),
                       ops::subtract(ctx, p.reference_chosen, p.reference_rejected));
}

// (x - mean) / (deviation + eps) of n values; the variance is divided by n - `less`.
void standardise(const float* x, float* y, int64_t n, int64_t less, double eps) {
  double mean = 0, var = 0;
  for (int64_t i = 0; i < n; ++i) mean += x[i] / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) var += (x[i] - mean) * (x[i] - mean);
  const double deviation = n > less ? std::sqrt(var / static_cast<double>(n - less)) : 0.0;
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>((x[i] - mean) / (deviation + eps));
}

}  // namespace

Tensor dpo_loss(Context& ctx, const PreferencePairs& pairs, float beta, float smoothing) {
  const Tensor m = margin(ctx, pairs);
  const auto log_sigmoid = [&](float by) {
    return ops::mean(ctx, ops::activate(ctx, ops::scale(ctx, m, by), Activation::kLogSigmoid));
  };
  Tensor loss = ops::scale(ctx, log_sigmoid(beta), smoothing - 1.0f);
  if (smoothing > 0.0f) loss = ops::add(ctx, loss, ops::scale(ctx, log_sigmoid(-beta), -smoothing));
  return loss;
}

Tensor ipo_loss(Context& ctx, const PreferencePairs& pairs, float beta) {
  return ops::mean(
      ctx, ops::activate(ctx, ops::shift(ctx, margin(ctx, pairs), -0.5f / beta), Activation::kSquare));
}

Tensor hinge_loss(Context& ctx, const PreferencePairs& pairs, float beta) {
  const Tensor lack = ops::shift(ctx, ops::scale(ctx, margin(ctx, pairs), -beta), 1.0f);
  return ops::mean(ctx, ops::activate(ctx, lack, Activation::kRelu));
}

Tensor simpo_loss(Context& ctx, const Tensor& chosen, const Tensor& rejected, float beta, float gamma) {
  const Tensor margin = ops::scale(ctx, ops::subtract(ctx, chosen, rejected), beta);
  const Tensor log_sigmoid = ops::activate(ctx, ops::shift(ctx, margin, -gamma), Activation::kLogSigmoid);
  return ops::scale(ctx, ops::mean(ctx, log_sigmoid), -1.0f);
}

Advantages generalised_advantages(const Tensor& rewards, const Tensor& values,
                                  const std::vector<int64_t>& starts, double gamma, double lambda) {
  check(rewards.shape() == values.shape() && !starts.empty() && starts.back() == rewards.count(),
        "advantages: one reward and one value per token");
  Advantages out{Tensor::zeros(rewards.shape()), Tensor::zeros(rewards.shape())};
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    double next_value = 0, running = 0;
    for (int64_t t = starts[s + 1] - 1; t >= starts[s]; --t) {
      const double delta = rewards.f32()[t] + gamma * next_value - values.f32()[t];
      running = delta + gamma * lambda * running;
      next_value = values.f32()[t];
      out.advantages.f32()[t] = static_cast<float>(running);
      out.returns.f32()[t] = static_cast<float>(running + next_value);
    }
  }
  return out;
}

Tensor whiten(const Tensor& x) {
  Tensor y = Tensor::empty(x.shape());
  standardise(x.f32(), y.f32(), x.count(), 0, 1e-8);
  return y;
}

Tensor group_advantages(const Tensor& rewards, int64_t group) {
  check(group > 0 && rewards.count() % group == 0, "group_advantages: whole groups are expected");
  Tensor y = Tensor::empty(rewards.shape());
  for (int64_t i = 0; i < rewards.count(); i += group)
    standardise(rewards.f32() + i, y.f32() + i, group, 1, 1e-4);
  return y;
}

Tensor clipped_policy_loss(Context& ctx, const Tensor& log_probs, const Tensor& old_log_probs,
                           const Tensor& advantages, float clip) {
  const Tensor ratio = ops::activate(ctx, ops::subtract(ctx, log_probs, old_log_probs), Activation::kExp);
  const Tensor plain = ops::multiply(ctx, ratio, advantages);
  const Tensor held = ops::multiply(ctx, ops::clamp(ctx, ratio, 1.0f - clip, 1.0f + clip), advantages);
  return ops::scale(ctx, ops::mean(ctx, ops::minimum(ctx, plain, held)), -1.0f);
}

Tensor clipped_value_loss(Context& ctx, const Tensor& values, const Tensor& old_values, const Tensor& returns,
                          float clip) {
  const Tensor moved = ops::clamp(ctx, ops::subtract(ctx, values, old_values), -clip, clip);
  const auto squared = [&](const Tensor& v) {
    return ops::activate(ctx, ops::subtract(ctx, v, returns), Activation::kSquare);
  };
  const Tensor worse = ops::maximum(ctx, squared(values), squared(ops::add(ctx, moved, old_values)));
  return ops::scale(ctx, ops::mean(ctx, worse), 0.5f);
}

}  // namespace makar
