#include "train/preference.h"

#include <algorithm>
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

double mean(const float* x, int64_t n) {
  double out = 0;
  for (int64_t i = 0; i < n; ++i) out += x[i] / static_cast<double>(n);
  return out;
}

// Standard deviation; the variance is divided by n - `ddof`.
double deviation(const float* x, int64_t n, double center, int64_t ddof) {
  double var = 0;
  for (int64_t i = 0; i < n; ++i) var += (x[i] - center) * (x[i] - center);
  return n > ddof ? std::sqrt(var / static_cast<double>(n - ddof)) : 0.0;
}

// (x - mean) / (deviation + eps) of n values.
void standardise(const float* x, float* y, int64_t n, int64_t ddof, double eps) {
  const double center = mean(x, n), divisor = deviation(x, n, center, ddof) + eps;
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>((x[i] - center) / divisor);
}

}  // namespace

Tensor constant_row(Context& ctx, const std::vector<float>& values) {
  return Tensor::from({static_cast<int64_t>(values.size())}, std::span<const float>(values))
      .to(ctx.device.memory());
}

Tensor dpo_loss(Context& ctx, const PreferencePairs& pairs, float beta, float smoothing) {
  const Tensor m = margin(ctx, pairs);
  const auto log_sigmoid = [&](float factor) {
    return ops::mean(ctx, ops::activate(ctx, ops::scale(ctx, m, factor), Activation::kLogSigmoid));
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
  const Tensor shortfall = ops::shift(ctx, ops::scale(ctx, margin(ctx, pairs), -beta), 1.0f);
  return ops::mean(ctx, ops::activate(ctx, shortfall, Activation::kRelu));
}

Tensor simpo_loss(Context& ctx, const Tensor& chosen, const Tensor& rejected, float beta, float gamma) {
  const Tensor margin = ops::scale(ctx, ops::subtract(ctx, chosen, rejected), beta);
  const Tensor log_sigmoid = ops::activate(ctx, ops::shift(ctx, margin, -gamma), Activation::kLogSigmoid);
  return ops::scale(ctx, ops::mean(ctx, log_sigmoid), -1.0f);
}

Tensor kto_loss(Context& ctx, const RatedAnswers& a, float beta, float kl) {
  const auto n = static_cast<int64_t>(a.good.size());
  std::vector<float> signs, weights;
  for (const bool good : a.good) {
    signs.push_back(good ? beta : -beta);
    weights.push_back((good ? a.good_weight : a.bad_weight) / static_cast<float>(n));
  }
  const Tensor margin = ops::shift(ctx, ops::subtract(ctx, a.policy, a.reference), -kl);
  const Tensor value =
      ops::activate(ctx, ops::multiply(ctx, margin, constant_row(ctx, signs)), Activation::kSigmoid);
  return ops::sum(ctx, ops::multiply(ctx, ops::shift(ctx, ops::scale(ctx, value, -1.0f), 1.0f),
                                     constant_row(ctx, weights)));
}

Tensor kto_pair_loss(Context& ctx, const PreferencePairs& p, float beta) {
  const auto divergence = [](const Tensor& policy, const Tensor& reference) {
    const Tensor a = policy.host(), b = reference.host();
    double sum = 0;
    for (int64_t i = 0; i < a.count(); ++i) sum += static_cast<double>(a.f32()[i]) - b.f32()[i];
    return static_cast<float>(std::max(0.0, sum / static_cast<double>(a.count())));
  };
  const auto n = static_cast<size_t>(p.policy_chosen.count());
  const Tensor chosen = kto_loss(ctx, {p.policy_chosen, p.reference_chosen, std::vector<bool>(n, true)}, beta,
                                 divergence(p.policy_rejected, p.reference_rejected));
  const Tensor rejected =
      kto_loss(ctx, {p.policy_rejected, p.reference_rejected, std::vector<bool>(n, false)}, beta,
               divergence(p.policy_chosen, p.reference_chosen));
  return ops::scale(ctx, ops::add(ctx, chosen, rejected), 0.5f);
}

// ops/ has no log(1 - e^x). The loss is computed on the host, and the tape records its linearisation at
// these values, which has the same value and gradient.
Tensor orpo_loss(Context& ctx, const Tensor& chosen, const Tensor& rejected, float beta) {
  const Tensor a = chosen.host(), b = rejected.host();
  const int64_t n = a.count();
  std::vector<float> slopes_a, slopes_b;
  double constant = 0;
  for (int64_t i = 0; i < n; ++i) {
    // Below 0, so that log(1 - e^x) is finite.
    const double x = std::min(-1e-6, static_cast<double>(a.f32()[i])),
                 y = std::min(-1e-6, static_cast<double>(b.f32()[i]));
    const double odds = x - y - (std::log(-std::expm1(x)) - std::log(-std::expm1(y)));
    const double loss =
        -x + beta * (odds > 0 ? std::log1p(std::exp(-odds)) : std::log1p(std::exp(odds)) - odds);
    const double odds_slope = beta / (1 + std::exp(odds)), share = 1 / static_cast<double>(n);
    slopes_a.push_back(static_cast<float>(share * (-1 + odds_slope / std::expm1(x))));
    slopes_b.push_back(static_cast<float>(-share * odds_slope / std::expm1(y)));
    constant += share * loss - slopes_a.back() * static_cast<double>(a.f32()[i]) -
                slopes_b.back() * static_cast<double>(b.f32()[i]);
  }
  const auto weighted = [&](const Tensor& x, const std::vector<float>& slopes) {
    return ops::sum(ctx, ops::multiply(ctx, x, constant_row(ctx, slopes)));
  };
  return ops::shift(ctx, ops::add(ctx, weighted(chosen, slopes_a), weighted(rejected, slopes_b)),
                    static_cast<float>(constant));
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

Tensor whiten(const Tensor& x, bool keep_mean) {
  Tensor y = Tensor::empty(x.shape());
  standardise(x.f32(), y.f32(), x.count(), 0, 1e-8);
  if (!keep_mean) return y;
  const double center = mean(x.f32(), x.count());
  for (int64_t i = 0; i < y.count(); ++i) y.f32()[i] = static_cast<float>(y.f32()[i] + center);
  return y;
}

Tensor group_advantages(const Tensor& rewards, int64_t group, AdvantageScale scale) {
  check(group > 0 && rewards.count() % group == 0,
        "group_advantages: the number of rewards must be a multiple of the group size");
  Tensor y = Tensor::empty(rewards.shape());
  const int64_t n = rewards.count();
  const double batch_deviation = deviation(rewards.f32(), n, mean(rewards.f32(), n), 1);
  for (int64_t i = 0; i < n; i += group) {
    const float* x = rewards.f32() + i;
    const double center = mean(x, group);
    const double divisor = scale == AdvantageScale::kNone    ? 1
                           : scale == AdvantageScale::kBatch ? batch_deviation + 1e-4
                                                             : deviation(x, group, center, 1) + 1e-4;
    for (int64_t k = 0; k < group; ++k) y.f32()[i + k] = static_cast<float>((x[k] - center) / divisor);
  }
  return y;
}

Tensor clipped_policy_terms(Context& ctx, const Tensor& log_probs, const Tensor& old_log_probs,
                            const Tensor& advantages, float low, float high) {
  const Tensor ratio = ops::activate(ctx, ops::subtract(ctx, log_probs, old_log_probs), Activation::kExp);
  const Tensor plain = ops::multiply(ctx, ratio, advantages);
  const Tensor clipped = ops::multiply(ctx, ops::clamp(ctx, ratio, 1.0f - low, 1.0f + high), advantages);
  return ops::scale(ctx, ops::minimum(ctx, plain, clipped), -1.0f);
}

Tensor clipped_policy_loss(Context& ctx, const Tensor& log_probs, const Tensor& old_log_probs,
                           const Tensor& advantages, float clip) {
  return ops::mean(ctx, clipped_policy_terms(ctx, log_probs, old_log_probs, advantages, clip, clip));
}

Tensor kl_terms(Context& ctx, const Tensor& log_probs, const Tensor& reference_log_probs) {
  const Tensor d = ops::subtract(ctx, reference_log_probs, log_probs);
  return ops::shift(ctx, ops::subtract(ctx, ops::activate(ctx, d, Activation::kExp), d), -1.0f);
}

Tensor clipped_value_terms(Context& ctx, const Tensor& values, const Tensor& old_values,
                           const Tensor& returns, float clip) {
  const Tensor change = ops::clamp(ctx, ops::subtract(ctx, values, old_values), -clip, clip);
  const auto squared = [&](const Tensor& v) {
    return ops::activate(ctx, ops::subtract(ctx, v, returns), Activation::kSquare);
  };
  return ops::maximum(ctx, squared(values), squared(ops::add(ctx, change, old_values)));
}

Tensor clipped_value_loss(Context& ctx, const Tensor& values, const Tensor& old_values, const Tensor& returns,
                          float clip) {
  return ops::scale(ctx, ops::mean(ctx, clipped_value_terms(ctx, values, old_values, returns, clip)), 0.5f);
}

}  // namespace makar
