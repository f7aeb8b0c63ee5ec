// Contrastive training of sentence embeddings (InfoNCE; van den Oord et al., 2018): pulls each anchor towards
// its own positive and away from the other positives and all negatives of the batch. An embedding is the mean
// of the last hidden states, normalised to length 1.
#pragma once
#include "data/datasets.h"
#include "data/spool.h"
#include "text/tokenizer.h"
#include "train/examples.h"

namespace makar {

struct Triplet {
  std::vector<int64_t> anchor, positive, negative;  // negative may be empty
  static constexpr auto fields() {
    return std::tuple(&Triplet::anchor, &Triplet::positive, &Triplet::negative);
  }
};
// Stored in temporary files in `folder`.
struct TripletData {
  explicit TripletData(const std::string& folder) : train(folder), validation(folder) {}
  SpoolOf<Triplet> train, validation;
  BadRecords bad;  // of the file read last
};
// Adds the {"anchor", "positive", "negative"} records of a file or folder.
Status read_triplets(const DataPath& path, const Tokenizer& tokenizer, int64_t max_length,
                     ValidationSplit& split, TripletData& out);

// Reads the triplets of all datasets.
Result<TripletData> open_triplets(const DatasetOptions& options, const Tokenizer& tokenizer,
                                  int64_t max_length, Json& identity);

// [sequences, width], rows of length 1.
Tensor sentence_embeddings(ForwardContext& f, const Model& model, const Batch& batch);

class ContrastiveTask : public ExampleTask {
 public:
  ContrastiveTask(Model& model, TripletData data, int64_t batch, uint64_t seed, float temperature = 0.05f)
      : ExampleTask(data.train.size(), data.validation.size(), batch, seed),
        model_(model),
        data_(std::move(data)),
        temperature_(temperature) {}
  // The share of held-out anchors whose nearest text in the batch is their own positive.
  Result<Metrics> metrics(Device& device) override;
  std::string watched() const override { return "accuracy"; }
  bool tokens_are_targets() const override { return false; }

 protected:
  Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) override;

 private:
  Tensor similarities(ForwardContext& f, const Batch& anchors, const Batch& others) const;
  Status batches(std::span<const size_t> which, bool validation, Batch& anchors, Batch& others) const;
  Model& model_;
  TripletData data_;
  float temperature_;
};

}  // namespace makar
