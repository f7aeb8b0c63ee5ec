// Preference optimisation on single answers that are rated good or bad (KTO; Ethayarajh et al., 2024). The
// divergence from the reference is estimated on mismatched answers: every example carries the answer of the
// example before it. As in dpo.h, the reference's log-probabilities are computed once, before the first step.
#pragma once
#include "data/ranked_record.h"
#include "train/answer_pairs.h"
#include "train/examples.h"
#include "train/preference.h"
#include "train/reference.h"

namespace makar {

struct RatedAnswer {
  std::vector<int64_t> ids, other_ids;         // prompt and answer; prompt and another prompt's answer
  std::vector<uint8_t> loss_mask, other_mask;  // 1 for the tokens of the answer
  bool good = false;
  static constexpr auto fields() {
    using T = RatedAnswer;
    return std::tuple(&T::ids, &T::other_ids, &T::loss_mask, &T::other_mask, &T::good);
  }
};
struct Ratings {
  explicit Ratings(const std::string& folder) : train(folder), validation(folder) {}
  SpoolOf<RatedAnswer> train, validation;
  BadRecords bad;  // of the file read last
};
// Reads the records that to_labelled() reads; a preference record counts as one good and one bad answer.
Result<Ratings> open_ratings(const DatasetOptions& options, const ConversationEncoder& encoder,
                             Json& identity);

struct KtoOptions {
  float beta = 0.1f, good_weight = 1.0f, bad_weight = 1.0f;
  DType activations = DType::kF32;
};

class KtoTask : public ExampleTask {
 public:
  KtoTask(Model& model, Ratings data, const KtoOptions& options, int64_t batch, uint64_t seed);
  // Call it before training. Adds the hash of the log-probabilities to `identity`.
  Status score_reference(const Reference& reference, Device& device, Json& identity);
  Status prepare_step(uint64_t step, Device& device) override;
  // rewards/chosen and rewards/rejected (means over good and bad answers), rewards/margins, kl
  Metrics step_metrics() const override { return step_.metrics(); }
  Result<Metrics> metrics(Device& device) override;
  bool tokens_are_targets() const override { return false; }

 protected:
  Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) override;

 private:
  struct Sums {
    double good = 0, bad = 0, good_reward = 0, bad_reward = 0, kl = 0, batches = 0;
    Metrics metrics() const;
  };
  struct Examples {
    AnswerBatch answers;  // the examples' own answers, then the mismatched ones
    std::vector<float> reference, other_reference;
    std::vector<bool> good;
  };
  using Scores = std::vector<std::array<float, 2>>;  // own, mismatched; one entry per example
  Result<Examples> read(std::span<const size_t> which, bool validation) const;
  Tensor loss(ForwardContext& f, const Examples& examples, Sums& sums) const;

  Model& model_;
  Ratings data_;
  KtoOptions o_;
  Scores train_reference_, validation_reference_;
  Sums step_;
};

}  // namespace makar
