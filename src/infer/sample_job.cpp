#include "infer/sample_job.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace makar {

SampleJob::SampleJob(SampleRequest request) : DecodingJob(request), request_(std::move(request)) {
  answers_.resize(static_cast<size_t>(request_.answers));
  for (size_t i = 0; i < answers_.size(); ++i) {
    SamplerOptions o = request_.sampler;
    o.seed += i;
    o.prompt_tokens = static_cast<int64_t>(request_.prompt.size());
    State state;
    state.answer = i;
    state.sampler = Sampler(std::move(o));
    if (request_.constraint) state.constraint = request_.constraint->fork();
    state.committed = static_cast<int64_t>(request_.prompt.size());
    states_.push_back(std::move(state));
  }
}

int64_t SampleJob::choose(State& state, std::span<const int64_t> tokens, std::span<const float> logits) {
  if (state.constraint) {
    scratch_.assign(logits.begin(), logits.end());
    if (const Status mask_status = state.constraint->mask(scratch_); !mask_status.ok())
      return error = mask_status.error(), -1;
    logits = scratch_;
  }
  std::vector<int64_t> all_tokens;  // samplers also see the tokens that the window has dropped
  if (!state.dropped.empty()) {
    all_tokens = state.dropped;
    all_tokens.insert(all_tokens.end(), tokens.begin(), tokens.end());
    tokens = all_tokens;
  }
  const auto generated = static_cast<uint64_t>(answers_[state.answer].tokens.size());
  const auto next = state.sampler.next(logits, tokens, generated);
  if (!next.ok()) return error = next.error(), -1;
  if (state.constraint)
    if (const Status accept_status = state.constraint->accept(*next); !accept_status.ok())
      return error = accept_status.error(), -1;
  return *next;
}

void SampleJob::append(State& state, int64_t token, std::span<const float> logits) {
  Answer& answer = answers_[state.answer];
  GeneratedToken generated{token, {}};
  if (request_.logprobs >= 0 || request_.stop_below > 0) {
    auto token_logprobs = logprobs(logits, token, std::max<int64_t>(request_.logprobs, 0));
    if (!token_logprobs.ok()) {
      error = token_logprobs.error();
      return;
    }
    generated.logprobs = std::move(*token_logprobs);
  }
  answer.tokens.push_back(generated);
  state.chosen.push_back(token);
  const auto finish = [&](Finish reason) { answer.finish = reason, state.finished = true; };
  if (request_.on_token && !request_.on_token(static_cast<int64_t>(state.answer), generated))
    finish(Finish::kStoppedByCaller);
  if (request_.stops(token)) return finish(Finish::kStop);
  if (state.finished) return;
  if (static_cast<int64_t>(answer.tokens.size()) >= request_.max_new_tokens) return finish(Finish::kLength);
  if (std::exp(static_cast<double>(generated.logprobs.chosen)) < request_.stop_below)
    return finish(Finish::kLowProbability);
  if (request_.deadline_passed()) finish(Finish::kTime);
}

void SampleJob::on_logits(size_t index, int64_t at, std::span<const float> logits) {
  if (error) return;
  const Branch& branch = branches[index];
  if (prompt_logits_.empty() && states_.size() > branches.size())
    prompt_logits_.assign(logits.begin(), logits.end());
  State& state = states_[index];
  if (state.draft_rejected || state.finished) return;
  const int64_t next = choose(state, std::span(branch.tokens).first(static_cast<size_t>(at + 1)), logits);
  if (error) return;
  const bool has_draft = at + 1 < branch.length();
  if (has_draft && branch.tokens[static_cast<size_t>(at + 1)] == next)
    ++accepted_tokens_;
  else
    state.draft_rejected = true;
  append(state, next, logits);
}

int64_t SampleJob::device_tokens(size_t branch) const {
  const State& state = states_[branch];
  const bool needs_logits = state.constraint || request_.drafter || request_.logprobs >= 0 ||
                            request_.stop_below > 0 || request_.window > 0 ||
                            states_.size() > branches.size();
  if (needs_logits || !state.sampler.row_sampler(0)) return 0;
  return request_.max_new_tokens - static_cast<int64_t>(answers_[state.answer].tokens.size());
}

kernels::RowSampler SampleJob::device_sampler(size_t branch) const {
  const State& state = states_[branch];
  return *state.sampler.row_sampler(answers_[state.answer].tokens.size());
}

void SampleJob::on_token(size_t index, int64_t, int64_t token) {
  if (!error && !states_[index].finished) append(states_[index], token, {});
}

bool SampleJob::blocked(size_t branch) {
  const auto& constraint = states_[branch].constraint;
  return constraint && !constraint->ready();
}

// When the window is full, keeps only the newer half of the text and recomputes it.
void SampleJob::slide(KvCache& cache, State& state, Branch& branch) const {
  if (request_.window <= 0 || branch.length() <= request_.window) return;
  const auto window_start = branch.tokens.end() - (request_.window + 1) / 2;
  state.dropped.insert(state.dropped.end(), branch.tokens.begin(), window_start);
  branch.tokens.erase(branch.tokens.begin(), window_start);
  drop(cache, branch);
}

void SampleJob::draft(State& state, Branch& branch) {
  state.committed = branch.length();
  branch.first_needed = branch.length() - 1;
  if (!request_.drafter) return;
  const int64_t left = request_.max_new_tokens - static_cast<int64_t>(answers_[state.answer].tokens.size());
  int64_t max = std::min(request_.draft_tokens, left - 1);
  if (request_.window > 0) max = std::min(max, request_.window - branch.length());
  if (max < 1) return;
  const auto drafts = request_.drafter->draft(branch.tokens, max);
  drafted_tokens_ += static_cast<int64_t>(drafts.size());
  branch.tokens.insert(branch.tokens.end(), drafts.begin(), drafts.end());
}

void SampleJob::advance(KvCache& cache) {
  if (states_.size() > branches.size()) {  // the prompt is computed: the other answers fork from it
    for (size_t i = 1; i < states_.size() && !error; ++i) {
      const int64_t next = choose(states_[i], branches[0].tokens, prompt_logits_);
      if (error) return;
      append(states_[i], next, prompt_logits_);
      branches.push_back(fork(cache, branches[0]));
    }
    prompt_logits_.clear();
  }
  for (size_t i = 0; i < branches.size(); ++i) {
    Branch& branch = branches[i];
    State& state = states_[i];
    if (branch.left() > 0 && !state.finished) continue;  // preempted, or not fully computed yet
    branch.tokens.resize(static_cast<size_t>(state.committed));
    branch.tokens.insert(branch.tokens.end(), state.chosen.begin(), state.chosen.end());
    state.chosen.clear();
    state.draft_rejected = false;
    if (state.finished) {
      drop(cache, branch);
      continue;
    }
    // Remove rejected draft tokens from the cache. The last generated token has not been computed yet.
    const int64_t computed = std::exchange(branch.cached, std::min(branch.cached, branch.length() - 1));
    branch.first_needed =
        std::max(branch.first_needed, branch.cached);  // truncate() may drop rows that were already delivered
    if (branch.slot && branch.cached < computed) branch.cached = cache.truncate(*branch.slot, branch.cached);
    slide(cache, state, branch);
    draft(state, branch);
  }
  size_t running = 0;
  for (size_t i = 0; i < branches.size(); ++i) {
    if (states_[i].finished) continue;
    if (running != i) branches[running] = std::move(branches[i]), states_[running] = std::move(states_[i]);
    ++running;
  }
  branches.resize(running);
  states_.erase(states_.begin() + static_cast<int64_t>(running), states_.end());
}

}  // namespace makar
