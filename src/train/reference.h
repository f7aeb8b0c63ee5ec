// The frozen model that a task compares the trained one with (the reference of DPO and PPO): another model,
// the trained model without its adapter, or the trained model with a copy of its trained weights. The last
// two need no second copy of a base.
#pragma once
#include <utility>
#include <vector>

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
  // The model as it is now: the weights that are trained are copied, the others shared. log_probabilities()
  // puts the copies into the model for the duration of the call.
  static Reference copy_of(Model& model, Device& device, DType activations = DType::kF32);

  // token_log_probabilities() of the reference, without gradients or dropout.
  ScoredTokens log_probabilities(Device& device, const Batch& batch, const std::vector<float>& mask) const;

 private:
  const Model& model_;
  DType activations_;
  bool without_adapters_ = false;
  std::vector<std::pair<Parameter*, Tensor>> copies_;
};

}  // namespace makar
