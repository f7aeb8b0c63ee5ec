// Log-probabilities of given tokens: one continuation of a prefix, or several, for which the prefix is
// computed once.
#pragma once
#include "infer/job.h"
#include "infer/logprobs.h"

namespace makar {

class ScoreJob : public Job {
 public:
  // Scores tokens[from...] given all tokens before them; from >= 1. `top`: alternatives reported per token.
  ScoreJob(std::vector<int64_t> tokens, int64_t from, int64_t top = 0);
  // Scores every continuation after the prefix, which has at least one token.
  ScoreJob(std::vector<int64_t> prefix, std::vector<std::vector<int64_t>> continuations, int64_t top = 0);
  void on_logits(size_t branch, int64_t index, std::span<const float> logits) override;
  void advance(KvCache& cache) override;
  bool independent_branches() const override { return true; }

  size_t continuations() const { return continuations_.size(); }
  // The scores of one continuation, in token order; the list grows while the job runs.
  const std::vector<Logprobs>& scores(size_t continuation = 0) const { return scores_[continuation]; }

 private:
  void score(size_t continuation, size_t at, std::span<const float> logits);
  Branch branch_of(Branch prefix, size_t continuation) const;
  int64_t prefix_length_;
  std::vector<std::vector<int64_t>> continuations_;
  int64_t top_;
  bool shared_ = false;        // the only branch is the prefix of several continuations
  std::vector<size_t> owner_;  // continuation of each branch
  std::vector<std::vector<Logprobs>> scores_;
};

}  // namespace makar
