// Draft tokens from a smaller model with the same vocabulary (Leviathan et al., 2023): its most probable
// tokens.
#pragma once
#include "infer/draft.h"
#include "models/model.h"

namespace makar {

class ModelDrafter : public Drafter {
 public:
  // The model must outlive the drafter.
  ModelDrafter(const Model& model, Device& device);
  std::vector<int64_t> draft(std::span<const int64_t> tokens, int64_t max) override;

 private:
  const Model& model_;
  Device& device_;
  KvCache cache_;
  size_t slot_;
  std::vector<int64_t> cached_tokens_;
};

}  // namespace makar
