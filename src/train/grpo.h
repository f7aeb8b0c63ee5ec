// Group relative policy optimisation (Shao et al., 2024): the advantage of an answer is its reward relative
// to the other answers to the same prompt. Variants: clip-higher and a mean over all tokens (DAPO; Yu et al.,
// 2025), advantages that are not divided by the standard deviation and a constant divisor (Dr. GRPO; Liu et
// al., 2025).
#pragma once
#include "train/policy_task.h"
#include "train/preference.h"

namespace makar {

// How token losses are averaged: per answer, then over answers; over all tokens of the step; or divided by
// the maximum answer length, so that no length is favoured.
enum class TokenMean { kAnswer, kTokens, kConstant };
std::optional<TokenMean> token_mean_named(const std::string& name);  // grpo, dapo, dr_grpo
std::vector<std::string> token_mean_names();

struct GrpoOptions {
  TokenMean mean = TokenMean::kTokens;
  AdvantageScale scale = AdvantageScale::kGroup;
  float clip_low = 0.2f, clip_high = 0.2f;
  float beta = 0;  // weight of the divergence from the reference
};

class GrpoTask : public PolicyTask {
 public:
  GrpoTask(Model& policy, const Tokenizer& tokenizer, PolicyPrompts prompts, std::vector<RewardTerm> rewards,
           std::optional<Reference> reference, const PolicyOptions& options, const GrpoOptions& grpo);

 protected:
  Status estimate(PolicyBuffer& buffer, Device& device) override;
  Result<Tensor> loss(ForwardContext& f, const PolicySlice& slice, const Tensor& log_probabilities) override;
  double weight_of(const PolicySlice& slice) const override;
  void add_metrics(Metrics& metrics) const override;

 private:
  GrpoOptions g_;
};

// The weight of each token of a slice; the weighted sum of token losses is the slice's loss.
std::vector<float> token_weights(const PolicySlice& slice, TokenMean mean, int64_t max_new_tokens);

}  // namespace makar
