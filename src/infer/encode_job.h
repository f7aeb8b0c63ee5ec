// Computes the hidden states of a text, for embeddings, heads and masked tokens. For decoders and encoders.
#pragma once
#include "infer/job.h"

namespace makar {

class EncodeJob : public Job {
 public:
  // `types`: one per token, or empty.
  explicit EncodeJob(std::vector<int64_t> tokens, std::vector<int64_t> types = {});
  bool wants_states() const override { return true; }
  bool wants_logits(size_t, int64_t) const override { return false; }
  void on_hidden(size_t branch, int64_t index, std::span<const float> hidden) override;
  void on_logits(size_t, int64_t, std::span<const float>) override {}
  void advance(KvCache& cache) override { stop(cache); }

  Tensor states() const;  // [tokens, width]

 private:
  int64_t tokens_;
  std::vector<float> states_;
};

}  // namespace makar
