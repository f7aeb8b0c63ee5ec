// Distillation: a student learns the predictions of a teacher, and optionally its hidden states and
// attention, on the batches of another task (next tokens, conversations, masked tokens, source and target,
// sampled answers).
#pragma once
#include <memory>
#include <utility>

#include "train/distill_loss.h"
#include "train/task.h"

namespace makar {

enum class HiddenLoss { kSquare, kCosine };
enum class AttentionLoss { kSquare, kDivergence };

// (layer of the student, layer of the teacher): 0 is the embedding, then the output of each block. Attention
// is compared where both layers have it.
using LayerMap = std::vector<std::pair<int64_t, int64_t>>;
// Evenly spread: layer i of the student learns layer i * teacher / student, from the embedding to the last.
LayerMap even_layers(int64_t student, int64_t teacher);
// "1:2,2:4"; `place`: the option, in errors.
Result<LayerMap> parse_layer_map(const std::string& text, int64_t student, int64_t teacher,
                                 const std::string& place);
// "1,3,4,8": numbers from 1 to `teacher` in ascending order.
Result<std::vector<int64_t>> parse_layers(const std::string& text, int64_t teacher, const std::string& place);

struct DistillOptions {
  TeacherLoss loss = TeacherLoss::kForward;
  float temperature = 1, beta = 0.5f;
  float alpha = 0.5f;  // weight of the teacher's predictions; 1 - alpha: of the targets
  float hidden_weight = 0, attention_weight = 0;  // weights of two more terms
  HiddenLoss hidden = HiddenLoss::kSquare;
  AttentionLoss attention = AttentionLoss::kSquare;
  LayerMap layers;  // for hidden states and attention
  float smoothing = 0;
  uint64_t seed = 0;
};

class DistillTask : public Task {
 public:
  // `data` makes batches of a language model (MicroBatch::language). If widths differ, the student gets
  // projections of its hidden states, which are trained with it and not saved.
  DistillTask(Model& student, const Model& teacher, std::unique_ptr<Task> data,
              const DistillOptions& options);
  // Fails if the student cannot be distilled from this teacher with these options.
  static Status check(const Model& student, const Model& teacher, const DistillOptions& options);

  Status prepare_step(uint64_t step, Device& device) override;
  Result<MicroBatch> train_batch(uint64_t index) override;
  uint64_t batches_per_epoch() const override { return data_->batches_per_epoch(); }
  Metrics step_metrics() const override;
  TaskState state() const override { return data_->state(); }
  Status restore(const TaskState& state) override { return data_->restore(state); }
  uint64_t validation_batches() const override { return data_->validation_batches(); }
  Result<MicroBatch> validation_batch(uint64_t index) override { return data_->validation_batch(index); }
  // On the validation data: the teacher's loss, KL(teacher || student), and how often both predict the
  // same token.
  Result<Metrics> metrics(Device& device) override;
  std::string watched() const override { return data_->watched(); }
  Result<std::string> sample(Device& device, int64_t step) override { return data_->sample(device, step); }
  bool tokens_are_targets() const override { return false; }

 private:
  struct Sums {
    double batches = 0, hard = 0, teacher = 0, hidden = 0, attention = 0;
  };
  Result<Tensor> loss(ForwardContext& f, const LanguageBatch& batch);
  Tensor hidden_loss(Context& ctx, const Record& student, const Record& teacher) const;
  Tensor attention_loss(Context& ctx, const Record& student, const Record& teacher, const Batch& batch) const;

  Model& student_;
  const Model& teacher_;
  std::unique_ptr<Task> data_;
  DistillOptions o_;
  std::vector<Parameter*> projections_;  // per entry of the layer map; null: equal widths
  Sums sums_;                            // of the current step
};

}  // namespace makar
