#include "infer/score_job.h"

namespace makar {

ScoreJob::ScoreJob(std::vector<int64_t> tokens, int64_t from, int64_t top)
    : tokens_(std::move(tokens)), top_(top) {
  check(from >= 1 && from <= static_cast<int64_t>(tokens_.size()), "the first token has nothing before it");
  if (from == static_cast<int64_t>(tokens_.size())) return;
  Branch branch;
  branch.tokens.assign(tokens_.begin(), tokens_.end() - 1);  // the last token predicts nothing
  branch.want = from - 1;
  branches.push_back(std::move(branch));
}

void ScoreJob::row(size_t, int64_t index, std::span<const float> logits) {
  if (error) return;
  auto known = logprobs(logits, tokens_[static_cast<size_t>(index + 1)], top_);
  if (!known.ok()) {
    error = known.error();
    return;
  }
  scores_.push_back(std::move(*known));
}

double ScoreJob::total() const {
  double sum = 0;
  for (const Logprobs& score : scores_) sum += static_cast<double>(score.chosen);
  return sum;
}

}  // namespace makar
