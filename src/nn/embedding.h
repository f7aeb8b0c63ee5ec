// Converts a batch to the input of the first block: tokens, types and positions, or image patches.
#pragma once
#include "nn/batch.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace makar {

class Embedding {
 public:
  Embedding() = default;
  // `tokens`: the table of another stack (shared embeddings), or null.
  Embedding(ParameterSet& set, const std::string& name, int64_t width, const EmbeddingSpec& spec,
            const NormSpec& norm, Parameter* tokens = nullptr);
  Tensor operator()(ForwardContext& f, const Batch& batch) const;
  Parameter* tokens() const { return tokens_; }
  Linear& project() { return project_; }

 private:
  Tensor patches(Context& ctx, const Tensor& pixels) const;
  EmbeddingSpec spec_;
  Parameter *tokens_ = nullptr, *types_ = nullptr, *positions_ = nullptr;
  Parameter *patch_weight_ = nullptr, *patch_bias_ = nullptr, *cls_ = nullptr, *distillation_ = nullptr;
  Norm norm_;
  Linear project_;
};

}  // namespace makar
