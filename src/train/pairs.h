// Sequence to sequence: the encoder reads the source, the decoder is trained on the target.
#pragma once
#include "data/datasets.h"
#include "data/spool.h"
#include "text/tokenizer.h"
#include "train/examples.h"

namespace makar {

struct TokenPair {
  std::vector<int64_t> source, target;  // both include the end token
  static constexpr auto fields() { return std::tuple(&TokenPair::source, &TokenPair::target); }
};

// Mean loss over target tokens; the decoder's input is the target shifted right, after its start token.
MicroBatch pair_batch(Model& model, const std::vector<TokenPair>& pairs, float smoothing);

// Stored in temporary files in `folder`.
struct PairData {
  explicit PairData(const std::string& folder) : train(folder), validation(folder) {}
  SpoolOf<TokenPair> train, validation;
  BadRecords bad;  // of the file read last
};
// Adds the {"source", "target"} records of a file or folder.
Status read_pairs(const DataPath& path, const Tokenizer& tokenizer, int64_t eos, int64_t max_length,
                  ValidationSplit& split, PairData& out);

// Reads the pairs of all datasets.
Result<PairData> open_pairs(const DatasetOptions& options, const Tokenizer& tokenizer, int64_t eos,
                            int64_t max_length, Json& identity);
// Mean number of tokens of a training pair.
Result<int64_t> mean_tokens(const PairData& data);

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
