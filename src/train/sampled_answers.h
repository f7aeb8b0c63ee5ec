// Sampled answers as training data: sampled by a teacher before training (sequence-level distillation; Kim &
// Rush, 2016), or by the student during training (on-policy; Agarwal et al., 2023).
#pragma once
#include <functional>
#include <memory>

#include "train/policy_data.h"
#include "train/rollout.h"

namespace makar {

struct SampledAnswersOptions {
  int64_t max_new_tokens = 256;
  int64_t answers = 1;  // per prompt, of a teacher
  double temperature = 1;
  std::vector<int64_t> stop;
  uint64_t seed = 0;
};

// The settings with which a frozen model answers the prompts of a run.
struct AnswerSampling {
  Model& model;
  Device& device;
  SampledAnswersOptions options;
  // If not empty, the model gets this system message, which is not part of the student's prompts (explanation
  // tuning; Mukherjee et al., 2023); `encoder` then encodes its prompts.
  std::string system;
  const ConversationEncoder* encoder = nullptr;
  std::string folder;  // of the token shards; shards of an earlier run with the same `key` are reused
  Json key;            // what the answers depend on besides prompts and options
  std::function<void(size_t done, size_t total)> progress = [](size_t, size_t) {};
};
// All answers as conversations with loss on the answers. Adds the hash of their tokens to `identity`.
Result<ConversationStores> sample_conversations(const AnswerSampling& sampling, const PolicyPrompts& prompts,
                                                Json& identity);

// Batches of answers that the trained model samples before each step. `share` of the steps
// sample, the others use `data`; the seed determines which. Validation is that of `data`; without data, on
// answers to the first held-out prompts, which metrics() samples with the same random numbers every time.
class StudentAnswersTask : public Task {
 public:
  // `data` may be null if `share` is 1.
  StudentAnswersTask(Model& student, PolicyPrompts prompts, std::unique_ptr<Task> data, double share,
                     int64_t micro_batch, int64_t accumulate, const SampledAnswersOptions& options);
  Status prepare_step(uint64_t step, Device& device) override;
  Result<MicroBatch> train_batch(uint64_t index) override;
  uint64_t batches_per_epoch() const override;
  Metrics step_metrics() const override;
  uint64_t validation_batches() const override;
  Result<MicroBatch> validation_batch(uint64_t index) override;
  Result<Metrics> metrics(Device& device) override;
  std::string watched() const override { return data_ ? data_->watched() : "-teacher_kl"; }

 private:
  bool samples(uint64_t step) const;
  MicroBatch batch_of(std::span<const Rollout> rollouts) const;
  Model& student_;
  PolicyPrompts prompts_;
  std::unique_ptr<Task> data_;
  double share_;
  int64_t micro_batch_, accumulate_;
  SampledAnswersOptions o_;
  std::vector<Rollout> rollouts_;  // of the current step; empty: it uses data
  std::vector<Rollout> held_out_;  // of the current validation
};

}  // namespace makar
