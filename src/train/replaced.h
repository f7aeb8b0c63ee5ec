// ELECTRA's objective (Clark et al., 2020): a small generator fills in masked tokens, and the model predicts
// for every token whether it was replaced. The generator shares the model's token embeddings; both are
// trained, and the model's loss has weight 50.
#pragma once
#include "train/denoise.h"

namespace makar {

constexpr float kReplacedWeight = 50.0f;

// A masked batch: the rows that are masked and their original ids.
struct MaskedBatch {
  Batch batch;
  std::vector<int64_t> rows, originals;
};

// The config of a generator with `size` times the width and heads of the discriminator.
Result<Json> generator_config(const ModelSpec& discriminator, double size);
// A generator that uses the discriminator's token embeddings.
Result<LoadedModel> make_generator(const Model& discriminator, double size, uint64_t seed);
// The generator as a model of its own, with a copy of the embeddings.
Result<LoadedModel> standalone_generator(const LoadedModel& generator, const Model& discriminator);

// Tokens sampled from the generator's distributions [rows, vocabulary] by inverting the cumulative
// distribution.
std::vector<int64_t> sample_tokens(const Tensor& logits, const Rng& rng);
// `draw` selects the random numbers of the replacements.
MicroBatch replaced_batch(Model& discriminator, Model& generator, MaskedBatch examples, uint64_t seed,
                          uint64_t draw);

}  // namespace makar
