// The frozen model that a task compares the trained one with (the reference of DPO and PPO): another model,
// or the trained model without its adapter, which needs no second copy of the weights.
#pragma once
#include "train/objective.h"

namespace makar {

class Reference {
 public:
  // `model` is frozen and must outlive the reference. `activations`: their type in training.
  explicit Reference(const Model& model, DType activations = DType::kF32)
      : model_(model), activations_(activations) {}
  // The base of a model with an adapter. Fails if the run trains weights outside of adapters
  // (modules_to_save): the base changes then.
  static Result<Reference> without_adapter(Model& model, DType activations = DType::kF32);

  // token_log_probabilities() of the reference, without gradients or dropout.
  ScoredTokens log_probabilities(Device& device, const Batch& batch, const std::vector<float>& mask) const;

 private:
  const Model& model_;
  DType activations_;
  bool without_adapters_ = false;
};

}  // namespace makar
