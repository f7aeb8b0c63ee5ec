// Proximal policy optimisation from rewards of whole answers (Schulman et al., 2017; Ziegler et al., 2019;
// details after Huang et al., 2024, arXiv 2403.17031): a value model, a penalty per token for the divergence
// from the reference, generalised advantage estimation, clipped losses of policy and value, whitened
// advantages.
#pragma once
#include "train/policy_task.h"
#include "train/preference.h"

namespace makar {

struct PpoOptions {
  float clip = 0.2f, value_clip = 0.2f, value_weight = 0.1f;
  double gamma = 1, lambda = 0.95;
  double kl_weight = 0.05;  // of the penalty; its initial value if kl_target is set
  // If kl_target > 0, the weight is adapted so that the divergence per answer approaches kl_target, over
  // about kl_horizon answers.
  double kl_target = 0, kl_horizon = 10000;
  double stop_kl = 0;  // > 0: no more updates on a rollout once the divergence per token exceeds this
  bool whiten_rewards = false;  // their mean is kept
};

class PpoTask : public PolicyTask {
 public:
  // `value` scores every token: a reward model.
  PpoTask(Model& policy, Model& value, const Tokenizer& tokenizer, PolicyPrompts prompts,
          std::vector<RewardTerm> rewards, Reference reference, const PolicyOptions& options,
          const PpoOptions& ppo);
  double kl_weight() const { return kl_weight_; }

 protected:
  Status estimate(PolicyBuffer& buffer, Device& device) override;
  Result<Tensor> loss(ForwardContext& f, const PolicySlice& slice, const Tensor& log_probabilities) override;
  double weight_of(const PolicySlice& slice) const override;
  void add_metrics(Metrics& metrics) const override;
  void add_state(TaskState& state) const override;
  Status restore_more(const TaskState& state) override;
  bool stops_early() const override;

 private:
  // The value before each answer token: [scored tokens]
  Tensor values(ForwardContext& f, const RolloutBatch& answers) const;
  Model& value_;
  PpoOptions p_;
  double kl_weight_;
  double divergence_ = 0;  // per answer, of the last rollout
};

// Rewards per token: minus the penalty at every token, plus the reward of the answer at its last token.
std::vector<float> penalised_rewards(const PolicyBuffer& buffer, double kl_weight);
// The weight after a rollout of `answers` with this divergence per answer (Ziegler et al., 2019, 2.2).
double adapted_weight(double weight, double divergence, double target, double answers, double horizon);

}  // namespace makar
