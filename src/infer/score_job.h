// Log-probabilities of given tokens.
#pragma once
#include "infer/job.h"
#include "infer/logprobs.h"

namespace makar {

class ScoreJob : public Job {
 public:
  // Scores tokens[from...] given all tokens before them; from >= 1. `top`: alternatives reported per token.
  ScoreJob(std::vector<int64_t> tokens, int64_t from, int64_t top = 0);
  void row(size_t branch, int64_t index, std::span<const float> logits) override;
  void advance(KvCache& cache) override { stop(cache); }

  const std::vector<Logprobs>& scores() const { return scores_; }
  double total() const;

 private:
  std::vector<int64_t> tokens_;
  int64_t top_;
  std::vector<Logprobs> scores_;
};

}  // namespace makar
