// One request by itself: a prompt in, token ids out, through the engine.
#pragma once
#include <functional>
#include <vector>

#include "infer/beam_job.h"
#include "infer/engine.h"
#include "infer/sample_job.h"

namespace makar {

// Ids within the vocabulary, and a model that writes with room for the answer. What every request is checked
// for.
Status check_request(const Model& model, const std::vector<int64_t>& prompt, int64_t max_new_tokens);

// The tokens a decoder begins with: the prompt, or the start token where an encoder reads the prompt.
std::vector<int64_t> decoder_prompt(const Model& model, const std::vector<int64_t>& prompt);

struct GenerateOptions {
  int64_t max_new_tokens = 64;
  SamplerOptions sampler;
  std::vector<int64_t> stop;  // ids that end the text; empty: the model's own
  int64_t chunk = 512;        // prompt tokens a forward
  std::function<void(int64_t)> on_token;
  // Beam search where beams > 1; nothing is drawn then.
  int64_t beams = 1, answers = 1;
  double length_penalty = 1.0;
  EarlyStop early = EarlyStop::kNo;
};

// The prompt with its continuation; for an encoder-decoder, what the decoder wrote, its start token first.
// Several where several answers are asked for, the best first.
Result<std::vector<std::vector<int64_t>>> generate_all(const Model& model, ThreadPool& pool,
                                                       const std::vector<int64_t>& prompt,
                                                       const GenerateOptions& options);
Result<std::vector<int64_t>> generate(const Model& model, ThreadPool& pool,
                                      const std::vector<int64_t>& prompt, const GenerateOptions& options);

}  // namespace makar
