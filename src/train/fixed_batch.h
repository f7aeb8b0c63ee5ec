// Trains repeatedly on one batch from a safetensors file: in.input_ids, in.attention_mask, in.labels and
// others under transformers' names. For comparing training with another framework number by number.
#pragma once
#include "train/objective.h"
#include "train/task.h"

namespace makar {

class FixedBatchTask : public Task {
 public:
  static Result<FixedBatchTask> open(Model& model, const std::string& path, float smoothing);
  Result<MicroBatch> train_batch(uint64_t) override;
  uint64_t batches_per_epoch() const override { return 1; }

 private:
  FixedBatchTask(Model& model, Inputs inputs, Labels labels, float smoothing)
      : model_(&model), inputs_(std::move(inputs)), labels_(std::move(labels)), smoothing_(smoothing) {}
  Model* model_;
  Inputs inputs_;
  Labels labels_;
  float smoothing_;
};

}  // namespace makar
