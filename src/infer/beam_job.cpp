#include "infer/beam_job.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace makar {
namespace {

constexpr double kNone = -1e9;  // worse than any score

}  // namespace

BeamJob::BeamJob(BeamRequest request)
    : request_(std::move(request)), sampler_(request_.sampler), scores_{0.0} {
  check(!request_.prompt.empty() && request_.beams > 0, "a beam search has a prompt and a width");
  Branch branch;
  branch.tokens = request_.prompt;
  branch.want = branch.length() - 1;
  branches.push_back(std::move(branch));
  if (request_.max_new_tokens < 1) branches.clear();
}

// The candidates of one branch: as many as could be taken from it alone.
void BeamJob::row(size_t index, int64_t, std::span<const float> logits) {
  if (error) return;
  scratch_.assign(logits.begin(), logits.end());
  // log-softmax in f32, as the reference: the order of near ties is decided there
  const float top = *std::max_element(scratch_.begin(), scratch_.end());
  if (!std::isfinite(top)) {
    error = error_at("beam search", "the model's logits are not finite");
    return;
  }
  double total = 0;
  for (const float x : scratch_) total += std::exp(static_cast<double>(x) - static_cast<double>(top));
  const float shift = top + static_cast<float>(std::log(total));
  for (float& x : scratch_) x -= shift;
  if (const Status status = sampler_.apply(scratch_, branches[index].tokens); !status.ok()) {
    error = status.error();
    return;
  }
  const size_t most = std::min(
      scratch_.size(), static_cast<size_t>(request_.beams) * std::max<size_t>(2, 1 + request_.stop.size()));
  std::vector<int64_t> order(scratch_.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(most), order.end(),
                    [&](int64_t a, int64_t b) {
                      const float x = scratch_[static_cast<size_t>(a)], y = scratch_[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  for (size_t i = 0; i < most; ++i)
    candidates_.push_back(
        {scores_[index] + static_cast<double>(scratch_[static_cast<size_t>(order[i])]), index, order[i]});
}

void BeamJob::keep(const Candidate& c, double score) {
  Answer answer;
  const auto& tokens = branches[c.branch].tokens;
  answer.tokens.assign(tokens.begin() + static_cast<int64_t>(request_.prompt.size()), tokens.end());
  answer.tokens.push_back(c.token);
  answer.score = score;
  const auto after =
      std::find_if(finished_.begin(), finished_.end(), [&](const Answer& a) { return a.score < score; });
  finished_.insert(after, std::move(answer));
  if (static_cast<int64_t>(finished_.size()) > request_.beams) finished_.pop_back();
}

void BeamJob::finish(KvCache& cache) {
  stop(cache);
  if (static_cast<int64_t>(finished_.size()) > request_.answers)
    finished_.resize(static_cast<size_t>(request_.answers));
}

void BeamJob::advance(KvCache& cache) {
  const auto width = static_cast<size_t>(request_.beams);
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  candidates_.resize(std::min(candidates_.size(), width * std::max<size_t>(2, 1 + request_.stop.size())));
  const int64_t made = branches[0].length() + 1 - static_cast<int64_t>(request_.prompt.size());
  const bool last = made >= request_.max_new_tokens;
  const auto ends = [&](const Candidate& c) {
    return last || std::find(request_.stop.begin(), request_.stop.end(), c.token) != request_.stop.end();
  };
  const auto full = [&] { return finished_.size() >= width; };
  const bool closed = full() && request_.early == EarlyStop::kYes;
  const double length = std::pow(static_cast<double>(made), request_.length_penalty);
  std::vector<Candidate> running;
  bool all_end = true;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& c = candidates_[i];
    if (!ends(c)) {
      all_end = false;
      if (running.size() < width) running.push_back(c);
    } else if (i < width && hopeful_ && !closed) {
      keep(c, c.score / length);
    }
  }
  candidates_.clear();
  // Can the best running beam still become better than the worst finished one?
  const int64_t hoped =
      request_.early == EarlyStop::kNever && request_.length_penalty > 0 ? request_.max_new_tokens : made;
  const double best = (running.empty() ? kNone : running[0].score) /
                      std::pow(static_cast<double>(hoped), request_.length_penalty);
  hopeful_ = hopeful_ && best > (full() ? finished_.back().score : kNone);
  if (all_end || !hopeful_ || (full() && request_.early == EarlyStop::kYes)) return finish(cache);

  std::vector<Branch> next;
  scores_.clear();
  for (const Candidate& c : running) {
    next.push_back(fork(cache, branches[c.branch]));
    next.back().tokens.push_back(c.token);
    next.back().want = next.back().length() - 1;
    scores_.push_back(c.score);
  }
  for (Branch& branch : branches) drop(cache, branch);
  branches = std::move(next);
}

}  // namespace makar
