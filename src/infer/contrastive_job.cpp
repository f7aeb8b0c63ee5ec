#include "infer/contrastive_job.h"

#include <algorithm>
#include <cmath>

#include "infer/samplers/ranking.h"
#include "infer/samplers/step.h"

namespace makar {
namespace {

std::vector<float> unit(std::span<const float> x) {
  double square = 0;
  for (const float f : x) square += static_cast<double>(f) * static_cast<double>(f);
  const double norm = std::max(std::sqrt(square), 1e-30);
  std::vector<float> out;
  for (const float f : x) out.push_back(static_cast<float>(static_cast<double>(f) / norm));
  return out;
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

SamplerOptions without_draws(SamplerOptions o) {
  o.temperature = 0;
  return o;
}

}  // namespace

ContrastiveJob::ContrastiveJob(ContrastiveRequest request)
    : DecodingJob(request), request_(std::move(request)), sampler_(without_draws(request_.sampler)) {
  check(request_.candidates > 0 && request_.answers == 1, "contrastive search generates one answer");
  answers_.resize(1);
  if (!branches.empty()) branches[0].first_needed = 0;  // the states of all tokens are needed for comparison
}

bool ContrastiveJob::wants_logits(size_t branch, int64_t index) const {
  return index + 1 == branches[branch].length();
}

void ContrastiveJob::on_hidden(size_t branch, int64_t, std::span<const float> hidden) {
  if (in_prefill())
    states_.push_back(unit(hidden));
  else
    candidates_[branch].state = unit(hidden);
}

void ContrastiveJob::on_logits(size_t branch, int64_t, std::span<const float> logits) {
  std::vector<float>& to = in_prefill() ? logits_ : candidates_[branch].logits;
  to.assign(logits.begin(), logits.end());
}

size_t ContrastiveJob::best() const {
  size_t best_index = 0;
  double max = -INFINITY;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    double similarity = -1;
    for (const auto& state : states_) similarity = std::max(similarity, dot(candidates_[i].state, state));
    const double score = (1 - request_.alpha) * candidates_[i].probability - request_.alpha * similarity;
    if (score > max) max = score, best_index = i;
  }
  return best_index;
}

bool ContrastiveJob::append(int64_t token) {
  Answer& answer = answers_[0];
  GeneratedToken generated{token, {}};
  if (request_.logprobs >= 0) {
    auto token_logprobs = logprobs(logits_, token, request_.logprobs);
    if (!token_logprobs.ok()) return error = token_logprobs.error(), false;
    generated.logprobs = std::move(*token_logprobs);
  }
  answer.tokens.push_back(std::move(generated));
  if (request_.stops(token))
    answer.finish = Finish::kStop;
  else if (static_cast<int64_t>(answer.tokens.size()) >= request_.max_new_tokens)
    answer.finish = Finish::kLength;
  else if (request_.deadline_passed())
    answer.finish = Finish::kTime;
  return answer.finish == Finish::kUnfinished;
}

// Forks the branch `from` once per candidate token.
bool ContrastiveJob::propose(KvCache& cache, size_t from) {
  std::vector<float> adjusted = logits_;
  if (const Status status = sampler_.apply(adjusted, branches[from].tokens); !status.ok())
    return error = status.error(), false;
  const float maximum = *std::max_element(adjusted.begin(), adjusted.end());
  double total = 0;
  for (const float x : adjusted) total += std::exp(static_cast<double>(x) - static_cast<double>(maximum));
  candidates_.clear();
  std::vector<Branch> next;
  Candidates allowed;
  allowed.reset(adjusted, extremes(adjusted));
  for (const size_t i : largest(allowed.logits(), static_cast<size_t>(request_.candidates))) {
    next.push_back(fork(cache, branches[from]));
    next.back().tokens.push_back(allowed.id(i));
    next.back().first_needed = next.back().length() - 1;
    candidates_.push_back(
        {std::exp(static_cast<double>(allowed.logits()[i]) - static_cast<double>(maximum)) / total, {}, {}});
  }
  for (Branch& branch : branches) drop(cache, branch);
  branches = std::move(next);
  return true;
}

void ContrastiveJob::advance(KvCache& cache) {
  size_t from = 0;
  if (!in_prefill()) {
    from = best();
    if (!append(branches[from].tokens.back())) return stop(cache);
    states_.push_back(std::move(candidates_[from].state));
    logits_ = std::move(candidates_[from].logits);
  }
  if (!propose(cache, from)) stop(cache);
}

}  // namespace makar
