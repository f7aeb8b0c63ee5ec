// Sequence to sequence: an encoder reads the source, the decoder learns the target.
#pragma once
#include "data/record_reader.h"
#include "data/spool.h"
#include "text/tokenizer.h"
#include "train/examples.h"

namespace makar {

struct TokenPair {
  std::vector<int64_t> source, target;  // each with its end token
  static constexpr auto fields() { return std::tuple(&TokenPair::source, &TokenPair::target); }
};

// Mean loss over target tokens; the decoder is fed the target shifted right behind its start token.
MicroBatch pair_batch(Model& model, const std::vector<TokenPair>& pairs, float smoothing);

// On disk, in temporary files of `folder`.
struct PairData {
  explicit PairData(const std::string& folder) : train(folder), validation(folder) {}
  SpoolOf<TokenPair> train, validation;
  BadRecords bad;  // of the file read last
};
// Adds the {"source", "target"} records of a file or folder; `share` of them, by hash, for validation (1:
// all).
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
