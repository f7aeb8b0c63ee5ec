// Next-token prediction on token stores: windows of `context` tokens, cut where documents end, so that
// attention stays inside each.
#pragma once
#include "data/mixture.h"
#include "data/token_store.h"
#include "train/task.h"

namespace makar {

struct Source {
  std::string name;
  TokenStore store;
  double weight = 0;  // 0: its number of tokens
};

struct CausalOptions {
  int64_t context = 256, batch = 8;
  uint64_t seed = 0;
  float smoothing = 0;
  int64_t validation_tokens = 1 << 20;  // at most so many are looked at
};

// Writes the tokens of [begin, end] and their targets (the next token, inside the document) into a batch.
void add_window(const TokenStore& store, int64_t begin, int64_t end, Batch& batch,
                std::vector<int64_t>& targets);

// The loss of next-token prediction on a ragged batch.
MicroBatch next_token_batch(Model& model, Batch batch, std::vector<int64_t> targets, float smoothing);

class CausalTask : public Task {
 public:
  using Sampler = std::function<Result<std::string>(ThreadPool&, int64_t step)>;
  CausalTask(Model& model, std::vector<Source> sources, std::vector<TokenStore> validation,
             CausalOptions options, Sampler sampler = {});
  Result<MicroBatch> train_batch(uint64_t index) override;
  uint64_t batches_per_epoch() const override;
  uint64_t validation_batches() const override;
  Result<MicroBatch> validation_batch(uint64_t index) override;
  Result<std::string> sample(ThreadPool& pool, int64_t step) override;

 private:
  Model& model_;
  std::vector<Source> sources_;
  std::vector<TokenStore> validation_;
  CausalOptions o_;
  Mixture mixture_;
  Sampler sampler_;
};

// Where the i-th window of a run begins: another order and another cut each epoch, computed directly.
struct WindowPlace {
  const TokenStore* store;
  int64_t begin;
};
WindowPlace window_at(const std::vector<Source>& sources, const Mixture& mixture, int64_t context,
                      uint64_t seed, uint64_t i);
// Mixture of the sources by their weights.
Mixture mixture_of(const std::vector<Source>& sources, uint64_t seed);

// Windows of a store that fit at any offset below the context; the last is shorter in a store smaller than
// that.
uint64_t window_count(const TokenStore& store, int64_t context);

}  // namespace makar
