// Runs a single request through the engine: a prompt in, token ids out.
#pragma once
#include <functional>
#include <vector>

#include "infer/decoding.h"
#include "infer/engine.h"

namespace makar {

struct GenerateOptions : Decoding {
  std::vector<int64_t> stop;  // ids that end the text; empty: those of the model
  EngineOptions engine;
  std::function<void(int64_t)> on_token;
  std::shared_ptr<ImageInputs> images;
};

// The prompt with its continuation; for an encoder-decoder, the decoder's output, start token first. Several
// if several answers are requested, best first.
Result<std::vector<std::vector<int64_t>>> generate_all(const Model& model, Device& device,
                                                       std::vector<int64_t> prompt,
                                                       const GenerateOptions& options);
Result<std::vector<int64_t>> generate(const Model& model, Device& device, const std::vector<int64_t>& prompt,
                                      const GenerateOptions& options);

}  // namespace makar
