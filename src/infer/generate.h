// Generation of token ids: a prompt in chunks into the cache, then one token after another.
#pragma once
#include <functional>
#include <vector>

#include "infer/sampler.h"
#include "models/model.h"

namespace makar {

struct GenerateOptions {
  int64_t max_new_tokens = 64;
  SamplerOptions sampler;
  std::vector<int64_t> stop;  // ids that end the text; empty: the model's own
  int64_t chunk = 256;        // prompt tokens a forward
  std::function<void(int64_t)> on_token;
};

// The prompt with its continuation; for an encoder-decoder, what the decoder wrote, its start token first.
// Errors: ids out of range, a context beyond the model's positions.
Result<std::vector<int64_t>> generate(const Model& model, ThreadPool& pool,
                                      const std::vector<int64_t>& prompt, const GenerateOptions& options);

}  // namespace makar
