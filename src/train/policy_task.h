// Reinforcement learning on sampled answers, shared by GRPO and PPO: rollouts with the weights being trained,
// rewards, the reference's log-probabilities, and the order in which steps use the answers of a rollout.
//
// A rollout samples `group` answers to each of its prompts and serves steps_per_generation * iterations
// steps. The sampler's log-probabilities equal the trainer's, bit for bit: this is checked for every
// answer before the weights change, and a difference is an error.
#pragma once
#include <optional>

#include "text/tokenizer.h"
#include "train/policy_data.h"
#include "train/reference.h"
#include "train/reward_rules.h"
#include "train/rollout.h"

namespace makar {

struct PolicyOptions {
  int64_t group = 8;                        // answers per prompt
  int64_t micro_batch = 8, accumulate = 1;  // answers per step: their product
  int64_t steps_per_generation = 1;         // steps that use the answers of a rollout once
  int64_t iterations = 1;                   // number of passes over the answers of a rollout
  int64_t max_new_tokens = 64;
  std::vector<int64_t> stop;
  double missing_eos_penalty = 0;  // subtracted from the reward of an answer truncated at the length limit
  bool mask_truncated = false;     // such answers have no loss
  uint64_t seed = 0;
  DType activations = DType::kF32;  // of training and sampling

  int64_t answers() const { return micro_batch * accumulate * steps_per_generation; }  // per rollout
  int64_t steps() const { return steps_per_generation * iterations; }                  // per rollout
};

// The answers of a rollout. Values per token are concatenated over the answers; answer i has [starts[i],
// starts[i + 1]).
struct PolicyBuffer {
  std::vector<Rollout> rollouts;  // with the sampler's log-probabilities
  std::vector<double> rewards;    // per answer
  std::vector<int64_t> starts = {0};
  std::vector<float> reference;        // log-probabilities; empty: no reference
  std::vector<float> advantages;       // per token
  std::vector<float> values, returns;  // per token, of PPO
};

// A micro-batch: some answers of the buffer.
struct PolicySlice {
  RolloutBatch answers;
  std::vector<int64_t> starts = {0};
  // Per token of the slice; `old` and `reference` are log-probabilities of the sampler and of the reference.
  std::vector<float> old, reference, advantages, values, returns;
  std::vector<float> counted;  // per token: 0 if its answer has no loss
  double tokens = 0;           // number of counted tokens
};

class PolicyTask : public Task {
 public:
  PolicyTask(Model& policy, const Tokenizer& tokenizer, PolicyPrompts prompts,
             std::vector<RewardTerm> rewards, std::optional<Reference> reference,
             const PolicyOptions& options);

  Status prepare_step(uint64_t step, Device& device) override;
  Result<MicroBatch> train_batch(uint64_t index) override;
  uint64_t batches_per_epoch() const override;
  Metrics step_metrics() const override;
  TaskState state() const override;
  Status restore(const TaskState& state) override;
  // Greedy answers to the held-out prompts: the mean reward, the means of its terms, the mean length.
  Result<Metrics> metrics(Device& device) override;
  uint64_t validation_batches() const override { return prompts_.validation.empty() ? 0 : 1; }
  Result<MicroBatch> validation_batch(uint64_t) override { return MicroBatch{}; }
  std::string watched() const override { return "reward"; }
  Result<std::string> sample(Device& device, int64_t step) override;
  bool tokens_are_targets() const override { return false; }

 protected:
  // Computes the advantages of a new buffer, and other values that the loss needs.
  virtual Status estimate(PolicyBuffer& buffer, Device& device) = 0;
  // The loss of a slice and its weight among the slices of the step.
  virtual Result<Tensor> loss(ForwardContext& f, const PolicySlice& slice,
                              const Tensor& log_probabilities) = 0;
  virtual double weight_of(const PolicySlice& slice) const = 0;
  // Additional state and metrics of a derived task.
  virtual void add_state(TaskState&) const {}
  virtual Status restore_more(const TaskState&) { return Done{}; }
  virtual void add_metrics(Metrics&) const {}
  // True if the remaining steps on this rollout are skipped.
  virtual bool stops_early() const { return false; }

  // Sums over the tokens of the current step.
  struct StepSums {
    double tokens = 0, clipped = 0;
    double kl = 0, sampler_kl = 0;  // divergence from the reference, and from the sampling policy
    double value_loss = 0, values_clipped = 0;
    double approximate_kl() const { return tokens > 0 ? sampler_kl / tokens : 0; }
  };
  // Adds to the sums of the step: the ratios clipped at [1 - low, 1 + high], and the k3 estimates of the
  // divergences from the reference and from the sampling policy.
  void count(const PolicySlice& slice, const Tensor& log_probabilities, float low, float high);

  Model& policy_;
  const PolicyOptions o_;
  PolicyBuffer buffer_;
  StepSums sums_;

 private:
  Status collect(uint64_t step, Device& device);
  Result<SummedRewards> compute_rewards(std::span<const Rollout> rollouts,
                                        std::span<const PolicyPrompt> prompts, Device& device) const;
  Status check_log_probabilities(std::span<const float> sampled, const Tensor& trained);
  PolicySlice slice(std::span<const size_t> which) const;
  std::string text_of(const Rollout& rollout) const;

  const Tokenizer& tokenizer_;
  PolicyPrompts prompts_;
  std::vector<RewardTerm> rewards_;
  std::optional<Reference> reference_;
  int64_t left_ = 0;           // steps that still use the buffer
  uint64_t collected_at_ = 0;  // the step of the rollout; determines samples and the order of answers
  uint64_t collections_ = 0;   // rollouts so far; determines the prompts
  std::vector<double> means_;  // of the reward terms in the buffer
  double difference_ = 0;      // largest one between the sampler's and the trainer's log-probabilities
};

}  // namespace makar
