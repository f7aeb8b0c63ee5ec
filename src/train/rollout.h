// Sampling with the weights that are being trained. The engine reads the trainer's own parameters, with the
// same kernels: while the weights are unchanged, the log-probability of a sampled token has the bits that
// token_log_probabilities() computes for it.
#pragma once
#include <span>
#include <vector>

#include "infer/decoding.h"

namespace makar {

struct RolloutOptions {
  int64_t max_new_tokens = 64;
  int64_t answers = 1;          // per prompt
  SamplerOptions sampler;       // its seed is replaced: every prompt draws from its own stream
  std::vector<int64_t> stop;    // ids that end an answer; empty: the model's end tokens
  uint64_t seed = 0, step = 0;  // answers are a pure function of these, the weights and the prompts
  DType activations = DType::kF32;
  int64_t max_pages = 0;  // of the KV cache; 0: unlimited, with at most 256 sequences at once
};

struct Rollout {
  size_t prompt = 0;            // index of the prompt
  std::vector<int64_t> tokens;  // prompt and answer; a stop id is included
  int64_t prompt_tokens = 0;
  std::vector<float> log_probabilities;  // of the answer's tokens, from the model's unmodified logits
  Finish finish = Finish::kUnfinished;
};

// Samples the answers to all prompts in one batch, in the order of the prompts. `model` must be a
// decoder-only language model. Weights that are not packed yet are packed for the duration of the call.
Result<std::vector<Rollout>> roll_out(Model& model, Device& device,
                                      std::span<const std::vector<int64_t>> prompts,
                                      const RolloutOptions& options);

// The rollouts as one ragged batch, and a mask with 1 for the tokens of the answers.
struct RolloutBatch {
  Batch batch;
  std::vector<float> mask;
};
RolloutBatch batch_rollouts(std::span<const Rollout> rollouts);

}  // namespace makar
