// Preference optimisation on pairs of answers (DPO; Rafailov et al., 2023, and its variants). The reference
// is frozen, so its log-probabilities are computed once, before the first step: no second model is in memory
// during training.
#pragma once
#include <array>
#include <optional>

#include "train/answer_pairs.h"
#include "train/preference.h"
#include "train/reference.h"

namespace makar {

enum class PreferenceLoss { kSigmoid, kHinge, kIpo, kKtoPair, kSimPo, kOrpo };
std::optional<PreferenceLoss> preference_loss_named(const std::string& name);
std::vector<std::string> preference_loss_names();

struct DpoOptions {
  PreferenceLoss loss = PreferenceLoss::kSigmoid;
  float beta = 0.1f;
  float smoothing = 0.0f;  // kSigmoid
  float gamma = 0.5f;      // kSimPo
  DType activations = DType::kF32;
  bool uses_reference() const { return loss != PreferenceLoss::kSimPo && loss != PreferenceLoss::kOrpo; }
};

// Sums over pairs; a reward is beta times the difference of the log-probabilities of policy and reference
// (SimPO and ORPO: beta times the mean log-probability per token).
struct PairRewards {
  double pairs = 0, chosen = 0, rejected = 0, correct = 0;
  void add(double reward_chosen, double reward_rejected);
  Metrics metrics() const;  // means under TRL's names: rewards/chosen, rewards/rejected, ...
};

class DpoTask : public ExampleTask {
 public:
  DpoTask(Model& model, AnswerPairs data, const DpoOptions& options, int64_t batch, uint64_t seed);
  // Computes the reference's log-probabilities of all answers. Call it before training, unless the loss uses
  // no reference. Adds their hash to `identity`.
  Status score_reference(const Reference& reference, Device& device, Json& identity);

  Status prepare_step(uint64_t step, Device& device) override;
  Metrics step_metrics() const override { return rewards_.metrics(); }
  Result<Metrics> metrics(Device& device) override;
  bool tokens_are_targets() const override { return false; }

 protected:
  Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) override;

 private:
  using Scores = std::vector<std::array<float, 2>>;  // chosen, rejected; one entry per pair
  struct Pairs {
    AnswerBatch answers;
    Scores reference;
  };
  Result<Pairs> read(std::span<const size_t> which, bool validation) const;
  PreferencePairs score(ForwardContext& f, const Pairs& pairs) const;
  Tensor loss(Context& ctx, const PreferencePairs& scored) const;
  void add_rewards(const PreferencePairs& scored, PairRewards& to) const;

  Model& model_;
  AnswerPairs data_;
  DpoOptions o_;
  Scores train_reference_, validation_reference_;
  PairRewards rewards_;  // of the current step
};

}  // namespace makar
