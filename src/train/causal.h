// Next-token prediction on token stores: windows of `context` tokens, split at document boundaries, so that
// attention stays inside each document.
#pragma once
#include "data/datasets.h"
#include "data/mixture.h"
#include "train/task.h"

namespace makar {

struct CausalOptions {
  int64_t context = 256, batch = 8;
  uint64_t seed = 0;
  float smoothing = 0;
  int64_t validation_tokens = 1 << 20;  // maximum number of tokens evaluated per store
};

// Appends the tokens of [begin, end) and their targets (the next token of the same document) to a batch.
void add_window(const TokenStore& store, int64_t begin, int64_t end, Batch& batch,
                std::vector<int64_t>& targets);

// The targets of a bidirectional language model, two per token: the next token (`next`) and the previous one.
std::vector<int64_t> bidirectional_targets(const Batch& batch, const std::vector<int64_t>& next);

// The loss of next-token prediction on a ragged batch; a bidirectional language model also predicts the
// previous token.
MicroBatch next_token_batch(Model& model, Batch batch, std::vector<int64_t> targets, float smoothing);

class CausalTask : public Task {
 public:
  using Sampler = std::function<Result<std::string>(Device&, int64_t step)>;
  CausalTask(Model& model, std::vector<TokenSource> sources, std::vector<TokenStore> validation,
             CausalOptions options, Sampler sampler = {});
  Result<MicroBatch> train_batch(uint64_t index) override;
  uint64_t batches_per_epoch() const override;
  uint64_t validation_batches() const override;
  Result<MicroBatch> validation_batch(uint64_t index) override;
  Result<std::string> sample(Device& device, int64_t step) override;
  bool trains_next_tokens() const override { return true; }

 private:
  Model& model_;
  std::vector<TokenSource> sources_;
  std::vector<TokenStore> validation_;
  CausalOptions o_;
  Mixture mixture_;
  Sampler sampler_;
};

// The start of the i-th window of a run. Order and window boundaries change each epoch; computed directly
// from i.
struct WindowStart {
  const TokenStore* store;
  int64_t begin;
};
WindowStart window_at(const std::vector<TokenSource>& sources, const Mixture& mixture, int64_t context,
                      uint64_t seed, uint64_t i);
// The mixture of the sources by weight.
Mixture mixture_of(const std::vector<TokenSource>& sources, uint64_t seed);

// Number of windows that fit at any offset below `context`, at least 1. In a store smaller than a window, the
// only window is shorter.
uint64_t window_count(const TokenStore& store, int64_t context);

}  // namespace makar
