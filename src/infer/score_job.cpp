#include "infer/score_job.h"

#include <algorithm>

namespace makar {
namespace {

std::vector<int64_t> slice(const std::vector<int64_t>& tokens, int64_t begin, int64_t end) {
  check(0 <= begin && begin <= end && end <= static_cast<int64_t>(tokens.size()),
        "the first scored token must be within the tokens");
  return {tokens.begin() + begin, tokens.begin() + end};
}

}  // namespace

ScoreJob::ScoreJob(std::vector<int64_t> tokens, int64_t from, int64_t top)
    : ScoreJob(slice(tokens, 0, from), {slice(tokens, from, static_cast<int64_t>(tokens.size()))}, top) {}

ScoreJob::ScoreJob(std::vector<int64_t> prefix, std::vector<std::vector<int64_t>> continuations, int64_t top)
    : prefix_length_(static_cast<int64_t>(prefix.size())),
      continuations_(std::move(continuations)),
      top_(top),
      scores_(continuations_.size()) {
  check(prefix_length_ >= 1, "scoring needs at least one token before the first scored one");
  const auto nonempty =
      std::count_if(continuations_.begin(), continuations_.end(), [](const auto& c) { return !c.empty(); });
  if (nonempty == 0) return;
  Branch branch;
  branch.tokens = std::move(prefix);
  shared_ = nonempty > 1;
  if (!shared_) {
    const auto only =
        std::find_if(continuations_.begin(), continuations_.end(), [](const auto& c) { return !c.empty(); });
    owner_ = {static_cast<size_t>(only - continuations_.begin())};
    branch = branch_of(std::move(branch), owner_[0]);
  }
  branch.first_needed = prefix_length_ - 1;
  branches.push_back(std::move(branch));
}

// The prefix and its continuation, without the last token, whose logits are not needed.
Branch ScoreJob::branch_of(Branch prefix, size_t continuation) const {
  const std::vector<int64_t>& tokens = continuations_[continuation];
  prefix.tokens.insert(prefix.tokens.end(), tokens.begin(), tokens.end() - 1);
  return prefix;
}

void ScoreJob::score(size_t continuation, size_t at, std::span<const float> logits) {
  auto token_logprobs = logprobs(logits, continuations_[continuation][at], top_);
  if (token_logprobs.ok())
    scores_[continuation].push_back(std::move(*token_logprobs));
  else
    error = token_logprobs.error();
}

void ScoreJob::on_logits(size_t branch, int64_t index, std::span<const float> logits) {
  if (error) return;
  if (!shared_) return score(owner_[branch], static_cast<size_t>(index + 1 - prefix_length_), logits);
  for (size_t i = 0; i < continuations_.size() && !error; ++i)
    if (!continuations_[i].empty()) score(i, 0, logits);
}

void ScoreJob::advance(KvCache& cache) {
  if (shared_) {  // the prefix is computed: the continuations fork from it
    shared_ = false;
    std::vector<Branch> forks;
    for (size_t i = 0; i < continuations_.size(); ++i) {
      if (continuations_[i].size() < 2) continue;
      forks.push_back(branch_of(fork(cache, branches[0]), i));
      forks.back().first_needed = prefix_length_;
      owner_.push_back(i);
    }
    drop(cache, branches[0]);
    branches = std::move(forks);
    return;
  }
  size_t running = 0;
  for (size_t i = 0; i < branches.size(); ++i) {
    if (branches[i].left() == 0) {
      drop(cache, branches[i]);
      continue;
    }
    if (running != i) branches[running] = std::move(branches[i]), owner_[running] = owner_[i];
    ++running;
  }
  branches.resize(running), owner_.resize(running);
}

}  // namespace makar
