// Losses of preference learning: DPO and its variants from summed log-probabilities; the losses of PPO and
// GRPO from per-token values. All batches are ragged: the tokens of all sequences are concatenated.
#pragma once
#include <vector>

#include "ops/context.h"

namespace makar {

// Summed log-probabilities of completions, one per pair: [pairs]. Those of the reference model are constants.
struct PreferencePairs {
  Tensor policy_chosen, policy_rejected;
  Tensor reference_chosen, reference_rejected;
};

// Direct preference optimisation (Rafailov et al., 2023): mean of -log s(beta * margin), where margin is how
// much more than the reference the policy prefers the chosen completion. With smoothing e, labels are assumed
// wrong with probability e (conservative DPO; Mitchell, 2023).
Tensor dpo_loss(Context& ctx, const PreferencePairs& pairs, float beta, float smoothing = 0.0f);
// Identity preference optimisation (Azar et al., 2023): mean of (margin - 1 / (2 beta))^2.
Tensor ipo_loss(Context& ctx, const PreferencePairs& pairs, float beta);
// Sequence likelihood calibration as a hinge (Zhao et al., 2023): mean of max(0, 1 - beta * margin).
Tensor hinge_loss(Context& ctx, const PreferencePairs& pairs, float beta);
// Simple preference optimisation (Meng et al., 2024), without a reference, on mean log-probabilities per
// token: mean of -log s(beta * (chosen - rejected) - gamma).
Tensor simpo_loss(Context& ctx, const Tensor& chosen, const Tensor& rejected, float beta, float gamma);

// Generalised advantage estimation (Schulman et al., 2016). Sequence s has tokens [starts[s], starts[s + 1]);
// the value after a sequence's last token is 0.
struct Advantages {
  Tensor advantages, returns;  // [tokens]; returns = advantages + values
};
Advantages generalised_advantages(const Tensor& rewards, const Tensor& values,
                                  const std::vector<int64_t>& starts, double gamma, double lambda);
// (x - mean) / deviation over all tokens, with the population standard deviation.
Tensor whiten(const Tensor& x);
// (reward - mean) / (deviation + 1e-4) within each group of consecutive rewards, with the sample standard
// deviation (GRPO; Shao et al., 2024).
Tensor group_advantages(const Tensor& rewards, int64_t group);

// PPO (Schulman et al., 2017): mean of max(-A r, -A clamp(r, 1 - clip, 1 + clip)), r = exp(new - old).
Tensor clipped_policy_loss(Context& ctx, const Tensor& log_probs, const Tensor& old_log_probs,
                           const Tensor& advantages, float clip);
// Half the mean of max((v - R)^2, (v' - R)^2), where v' is v clamped to within `clip` of its old value.
Tensor clipped_value_loss(Context& ctx, const Tensor& values, const Tensor& old_values, const Tensor& returns,
                          float clip);

}  // namespace makar
