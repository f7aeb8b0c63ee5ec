// One request by itself: a prompt in, token ids out, through the engine.
#pragma once
#include <functional>
#include <vector>

#include "infer/decoding.h"
#include "infer/engine.h"

namespace makar {

struct GenerateOptions : Decoding {
  std::vector<int64_t> stop;  // ids that end the text; empty: the model's own
  EngineOptions engine;
  std::function<void(int64_t)> on_token;
};

// The prompt with its continuation; for an encoder-decoder, what the decoder wrote, its start token first.
// Several where several answers are asked for, the best first.
Result<std::vector<std::vector<int64_t>>> generate_all(const Model& model, ThreadPool& pool,
                                                       std::vector<int64_t> prompt,
                                                       const GenerateOptions& options);
Result<std::vector<int64_t>> generate(const Model& model, ThreadPool& pool,
                                      const std::vector<int64_t>& prompt, const GenerateOptions& options);

}  // namespace makar
