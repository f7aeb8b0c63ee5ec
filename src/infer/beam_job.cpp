#include "infer/beam_job.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "infer/samplers/ranking.h"

namespace makar {
namespace {

constexpr double kWorstScore = -1e9;  // worse than any score

// In f32, like the reference implementation, so that near ties are ordered the same way.
std::vector<float> log_softmax(std::span<const float> logits) {
  const float maximum = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float x : logits) total += std::exp(static_cast<double>(x) - static_cast<double>(maximum));
  const float shift = maximum + static_cast<float>(std::log(total));
  std::vector<float> out(logits.begin(), logits.end());
  for (float& x : out) x -= shift;
  return out;
}

}  // namespace

Result<EarlyStop> parse_early_stop(const std::string& name) {
  if (name == "no" || name == "false") return EarlyStop::kNo;
  if (name == "yes" || name == "true") return EarlyStop::kYes;
  if (name == "never") return EarlyStop::kNever;
  return error_at("`early_stopping`", "expected no, yes or never, got '{}'", name);
}

BeamJob::BeamJob(BeamRequest request)
    : DecodingJob(request),
      request_(std::move(request)),
      sampler_(request_.sampler),
      width_(request_.beams / request_.groups),
      groups_(static_cast<size_t>(request_.groups)) {
  check(width_ > 0 && width_ * request_.groups == request_.beams, "all groups have the same number of beams");
  rows_.resize(1);
}

void BeamJob::on_logits(size_t index, int64_t, std::span<const float> logits) {
  if (error) return;
  if (const Extremes e = extremes(logits); e.broken || e.low > e.high) {
    error = error_of(Error::Kind::kIo, "logits",
                     "NaN or +infinity, or all -infinity; the model's weights are broken");
    return;
  }
  rows_[index] = log_softmax(logits);
}

// The best candidates over all branches of a group: enough to continue every beam even if all stop ids are
// among them.
std::vector<BeamJob::Candidate> BeamJob::candidates(const Group& group) {
  const size_t max = static_cast<size_t>(width_) * std::max<size_t>(2, 1 + request_.stop.size());
  std::vector<Candidate> all;
  std::vector<int64_t> order;
  for (size_t b = 0; b < group.branches.size(); ++b) {
    const size_t branch = group.branches[b];
    std::vector<float> row = rows_[branch];
    for (const auto& [token, times] : chosen_)
      row[static_cast<size_t>(token)] -=
          static_cast<float>(request_.diversity_penalty) * static_cast<float>(times);
    if (const Status status = sampler_.apply(row, branches[branch].tokens); !status.ok())
      return error = status.error(), all;
    order.resize(row.size());
    std::iota(order.begin(), order.end(), 0);
    const size_t count = std::min(row.size(), max);
    std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(count), order.end(),
                      [&](int64_t x, int64_t y) {
                        const float a = row[static_cast<size_t>(x)], c = row[static_cast<size_t>(y)];
                        return a != c ? a > c : x < y;
                      });
    for (size_t i = 0; i < count; ++i)
      all.push_back(
          {group.scores[b] + static_cast<double>(row[static_cast<size_t>(order[i])]), branch, order[i]});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  all.resize(std::min(all.size(), max));
  return all;
}

void BeamJob::add_finished(Group& group, const Candidate& c, double score, Finish reason) const {
  Answer answer;
  const auto& tokens = branches[c.branch].tokens;
  for (size_t i = request_.prompt.size(); i < tokens.size(); ++i) answer.tokens.push_back({tokens[i], {}});
  answer.tokens.push_back({c.token, {}});
  answer.score = score, answer.finish = reason;
  auto& finished = group.finished;
  const auto after =
      std::find_if(finished.begin(), finished.end(), [&](const Answer& a) { return a.score < score; });
  finished.insert(after, std::move(answer));
  if (static_cast<int64_t>(finished.size()) > width_) finished.pop_back();
}

// One step of a group: stores finished beams and returns those that continue.
std::vector<BeamJob::Candidate> BeamJob::choose(Group& group, std::vector<Candidate> candidates) {
  const auto width = static_cast<size_t>(width_);
  const int64_t generated = branches[0].length() + 1 - static_cast<int64_t>(request_.prompt.size());
  const bool last = generated >= request_.max_new_tokens || deadline_passed_;
  const auto full = [&] { return group.finished.size() >= width; };
  const bool closed = full() && request_.early_stop == EarlyStop::kYes;
  const double length = std::pow(static_cast<double>(generated), request_.length_penalty);
  std::vector<Candidate> running;
  bool all_end = true;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    const bool stops = request_.stops(c.token);
    if (!last && !stops) {
      all_end = false;
      if (running.size() < width) running.push_back(c);
    } else if (i < width && group.can_improve && !closed) {
      add_finished(group, c, c.score / length,
                   stops              ? Finish::kStop
                   : deadline_passed_ ? Finish::kTime
                                      : Finish::kLength);
    }
  }
  // Can the best running beam still become better than the worst finished one?
  const int64_t final_length = request_.early_stop == EarlyStop::kNever && request_.length_penalty > 0
                                   ? request_.max_new_tokens
                                   : generated;
  const double best = (running.empty() ? kWorstScore : running[0].score) /
                      std::pow(static_cast<double>(final_length), request_.length_penalty);
  group.can_improve = group.can_improve && best > (full() ? group.finished.back().score : kWorstScore);
  group.done = all_end || !group.can_improve || (full() && request_.early_stop == EarlyStop::kYes);
  if (group.done) running.clear();
  return running;
}

void BeamJob::finish(KvCache& cache) {
  stop(cache);
  for (Group& group : groups_)
    for (Answer& answer : group.finished) answers_.push_back(std::move(answer));
  std::stable_sort(answers_.begin(), answers_.end(),
                   [](const Answer& a, const Answer& b) { return a.score > b.score; });
  if (static_cast<int64_t>(answers_.size()) > request_.answers)
    answers_.resize(static_cast<size_t>(request_.answers));
}

void BeamJob::advance(KvCache& cache) {
  deadline_passed_ = request_.deadline_passed();
  std::vector<Branch> next;
  chosen_.clear();
  for (Group& group : groups_) {
    if (group.done) continue;
    std::vector<Candidate> group_candidates = candidates(group);
    if (error) break;
    const std::vector<Candidate> running = choose(group, std::move(group_candidates));
    group.branches.clear(), group.scores.clear();
    for (const Candidate& c : running) {
      group.branches.push_back(next.size()), group.scores.push_back(c.score);
      next.push_back(fork(cache, branches[c.branch]));
      next.back().tokens.push_back(c.token);
      next.back().first_needed = next.back().length() - 1;
    }
    for (const Candidate& c : running) ++chosen_[c.token];
  }
  for (Branch& branch : branches) drop(cache, branch);
  branches = std::move(next);
  rows_.assign(branches.size(), {});
  if (error) return stop(cache);
  if (branches.empty()) finish(cache);
}

}  // namespace makar
