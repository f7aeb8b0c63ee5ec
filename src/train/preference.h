// Losses of preference learning: DPO and its variants from summed log-probabilities; the losses of PPO and
// GRPO from per-token values. All batches are ragged: the tokens of all sequences are concatenated.
#pragma once
#include <vector>

#include "ops/context.h"

namespace makar {

// The values as a constant on the device of the context: [values].
Tensor constant_row(Context& ctx, const std::vector<float>& values);

// Summed log-probabilities of completions, one per pair: [pairs]. The reference's are constants.
struct PreferencePairs {
  Tensor policy_chosen, policy_rejected;
  Tensor reference_chosen, reference_rejected;
};

// Direct preference optimisation (Rafailov et al., 2023): mean of -log s(beta * margin), where s is the
// logistic function, and margin is chosen - rejected under the policy minus chosen - rejected under the
// reference. With smoothing e, labels are assumed wrong with probability e (conservative DPO; Mitchell,
// 2023).
Tensor dpo_loss(Context& ctx, const PreferencePairs& pairs, float beta, float smoothing = 0.0f);
// Identity preference optimisation (Azar et al., 2023): mean of (margin - 1 / (2 beta))^2.
Tensor ipo_loss(Context& ctx, const PreferencePairs& pairs, float beta);
// Sequence likelihood calibration as a hinge (Zhao et al., 2023): mean of max(0, 1 - beta * margin).
Tensor hinge_loss(Context& ctx, const PreferencePairs& pairs, float beta);
// Simple preference optimisation (Meng et al., 2024), without a reference, on mean log-probabilities per
// token: mean of -log s(beta * (chosen - rejected) - gamma).
Tensor simpo_loss(Context& ctx, const Tensor& chosen, const Tensor& rejected, float beta, float gamma);

// Kahneman-Tversky optimisation (Ethayarajh et al., 2024) of single answers: mean of
// weight * (1 - s(beta * (margin - kl))) for good answers and weight * (1 - s(beta * (kl - margin))) for bad
// ones, where margin is the log-probability under the policy minus that under the reference. kl is a
// constant.
struct RatedAnswers {
  Tensor policy, reference;  // [answers]
  std::vector<bool> good;
  float good_weight = 1.0f, bad_weight = 1.0f;
};
Tensor kto_loss(Context& ctx, const RatedAnswers& answers, float beta, float kl);
// kto_loss() on pairs. There are no mismatched answers to estimate kl from, so kl is the mean margin of the
// other half of the batch, at least 0.
Tensor kto_pair_loss(Context& ctx, const PreferencePairs& pairs, float beta);
// Odds ratio preference optimisation (Hong et al., 2024), without a reference, on mean log-probabilities per
// token [pairs]: mean of -chosen - beta * log s(log odds(chosen) - log odds(rejected)), odds(x) = e^x / (1 -
// e^x).
Tensor orpo_loss(Context& ctx, const Tensor& chosen, const Tensor& rejected, float beta);

// Generalised advantage estimation (Schulman et al., 2016). Sequence s has tokens [starts[s], starts[s + 1]);
// the value after a sequence's last token is 0.
struct Advantages {
  Tensor advantages, returns;  // [tokens]; returns = advantages + values
};
Advantages generalised_advantages(const Tensor& rewards, const Tensor& values,
                                  const std::vector<int64_t>& starts, double gamma, double lambda);
// (x - mean) / deviation over all tokens, with the population standard deviation. With `keep_mean`, the mean
// is added again.
Tensor whiten(const Tensor& x, bool keep_mean = false);
// The divisor of a group-relative advantage: the deviation of its group (GRPO; Shao et al., 2024), the
// deviation of all rewards, or none (Dr. GRPO; Liu et al., 2025).
enum class AdvantageScale { kGroup, kBatch, kNone };
// (reward - mean) / (deviation + 1e-4) within each group of consecutive rewards, with the sample standard
// deviation.
Tensor group_advantages(const Tensor& rewards, int64_t group, AdvantageScale scale = AdvantageScale::kGroup);

// PPO (Schulman et al., 2017): mean of max(-A r, -A clamp(r, 1 - clip, 1 + clip)), r = exp(new - old).
Tensor clipped_policy_loss(Context& ctx, const Tensor& log_probs, const Tensor& old_log_probs,
                           const Tensor& advantages, float clip);
// The terms of clipped_policy_loss() per token, with bounds 1 - low and 1 + high (DAPO's clip-higher; Yu et
// al., 2025).
Tensor clipped_policy_terms(Context& ctx, const Tensor& log_probs, const Tensor& old_log_probs,
                            const Tensor& advantages, float low, float high);
// Per token, the estimate e^d - d - 1 of the KL divergence from the reference, d = reference - policy
// (Schulman, 2020): never negative, and its mean over samples of the policy is the divergence.
Tensor kl_terms(Context& ctx, const Tensor& log_probs, const Tensor& reference_log_probs);
// Half the mean of max((v - R)^2, (v' - R)^2), where v' is v clamped to within `clip` of its old value.
Tensor clipped_value_loss(Context& ctx, const Tensor& values, const Tensor& old_values, const Tensor& returns,
                          float clip);
// The terms of clipped_value_loss() per token, without the factor 1/2.
Tensor clipped_value_terms(Context& ctx, const Tensor& values, const Tensor& old_values,
                           const Tensor& returns, float clip);

}  // namespace makar
