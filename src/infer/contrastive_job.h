// Contrastive search (Su et al., 2022), as transformers defines it: of the k most probable tokens, take the
// one with the largest (1 - alpha) p - alpha s, where s is the largest cosine between its hidden state and
// those of all previous tokens. The k candidates are forks that are computed in one step.
#pragma once
#include "infer/decoding_job.h"

namespace makar {

struct ContrastiveRequest : DecodingRequest {
  double alpha = 0.6;
  int64_t candidates = 4;  // k
};

class ContrastiveJob : public DecodingJob {
 public:
  explicit ContrastiveJob(ContrastiveRequest request);
  bool wants_states() const override { return true; }
  bool wants_logits(size_t branch, int64_t index) const override;
  void on_hidden(size_t branch, int64_t index, std::span<const float> hidden) override;
  void on_logits(size_t branch, int64_t index, std::span<const float> logits) override;
  void advance(KvCache& cache) override;

 private:
  struct Candidate {
    double probability = 0;
    std::vector<float> state, logits;  // after the candidate token
  };
  bool in_prefill() const { return candidates_.empty(); }
  size_t best() const;
  bool append(int64_t token);  // false if it was the last token
  bool propose(KvCache& cache, size_t from);

  ContrastiveRequest request_;
  Sampler sampler_;
  std::vector<Candidate> candidates_;       // one per branch; empty during prefill
  std::vector<std::vector<float>> states_;  // unit vectors, one per token of the text so far
  std::vector<float> logits_;               // after the text so far
};

}  // namespace makar
