// Sentence embeddings by contrast: an anchor's positive against those of the other anchors in the batch, and
// against its own negative where there is one (InfoNCE; van den Oord et al., 2018). Embeddings are the mean
// of the last hidden states, of length 1.
#pragma once
#include "data/record_reader.h"
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
// On disk, in temporary files of `folder`.
struct TripletData {
  explicit TripletData(const std::string& folder) : train(folder), validation(folder) {}
  SpoolOf<Triplet> train, validation;
  BadRecords bad;  // of the file read last
};
// Adds the {"anchor", "positive", "negative"} records of a file or folder; `share` of them, by hash, for
// validation (1: all).
Status read_triplets(const std::string& path, const Tokenizer& tokenizer, int64_t max_length, double share,
                     TripletData& out);

// [sequences, width], rows of length 1.
Tensor sentence_embeddings(ForwardContext& f, const Model& model, const Batch& batch);

class ContrastiveTask : public ExampleTask {
 public:
  ContrastiveTask(Model& model, TripletData data, int64_t batch, uint64_t seed, float temperature = 0.05f)
      : ExampleTask(data.train.size(), data.validation.size(), batch, seed),
        model_(model),
        data_(std::move(data)),
        temperature_(temperature) {}
  // Share of held-out anchors whose own positive is the nearest of its batch's.
  Result<Metrics> metrics(ThreadPool& pool) override;
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
