// Sequence to sequence: an encoder reads the source, the decoder learns the target.
#pragma once
#include "data/record_reader.h"
#include "text/tokenizer.h"
#include "train/examples.h"

namespace makar {

struct TokenPair {
  std::vector<int64_t> source, target;  // each with its end token
};

// Mean loss over target tokens; the decoder is fed the target shifted right behind its start token.
MicroBatch pair_batch(Model& model, std::vector<TokenPair> pairs, float smoothing);

struct PairData {
  std::vector<TokenPair> train, validation;
  BadRecords bad;
};
// {"source", "target"} records; `share` of them, by hash, for validation.
Status read_pairs(const std::string& path, const Tokenizer& tokenizer, int64_t eos, int64_t max_length,
                  double share, PairData& out);

class PairTask : public ExampleTask {
 public:
  PairTask(Model& model, PairData data, int64_t batch, uint64_t seed, float smoothing)
      : ExampleTask(data.train.size(), data.validation.size(), batch, seed),
        model_(model),
        data_(std::move(data)),
        smoothing_(smoothing) {}

 protected:
  Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) override;

 private:
  Model& model_;
  PairData data_;
  float smoothing_;
};

}  // namespace makar
