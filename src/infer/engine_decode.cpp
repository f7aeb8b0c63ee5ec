// Steps of the engine that stay on the device: decoding of sequences whose logits nothing else needs.
#include <algorithm>
#include <utility>

#include "infer/engine.h"

namespace makar {

// Every row is the next token of a branch whose token a device may choose.
bool Engine::decodes_on_device(const std::vector<ScheduledRows>& scheduled) const {
  if (!device_steps_ || skip_device_step_ || static_cast<int64_t>(scheduled.size()) > DecodeSteps::kMaxRows)
    return false;
  return std::all_of(scheduled.begin(), scheduled.end(), [](const ScheduledRows& s) {
    const Branch& branch = s.job->branches[s.branch];
    return s.count == 1 && branch.left() == 1 && branch.cached > 0 && branch.cached >= branch.first_needed &&
           branch.types.empty() && s.job->adapter < 0 && s.job->source.empty() && !s.job->wants_states() &&
           s.job->wants_logits(s.branch, branch.cached) && s.job->device_tokens(s.branch) > 0;
  });
}

void Engine::start_decode(const std::vector<ScheduledRows>& scheduled) {
  std::vector<DecodeSteps::Row> rows;
  decode_rows_.clear();
  for (const ScheduledRows& s : scheduled) {
    const Branch& branch = s.job->branches[s.branch];
    rows.push_back({*branch.slot, branch.tokens.back(), branch.cached, s.job->device_sampler(s.branch)});
    decode_rows_.push_back({s.job, s.branch, *branch.slot});
  }
  decode_steps_.set_rows(rows);
  decode_since_ = std::chrono::steady_clock::now();
  decode_steps_.start();
}

// Whether the step after the started one has the same rows, with pages for one more token: no sequence ends
// or waits.
bool Engine::can_start_ahead() {
  size_t branches = 0;
  for (const auto& job : jobs_) branches += job->branches.size();
  if (branches != decode_rows_.size()) return false;
  for (const DecodeRow& row : decode_rows_) {
    if (!row.job || row.job->device_tokens(row.branch) < 2) return false;
    const Branch& branch = row.job->branches[row.branch];
    if (long_rope_after_ > 0 || branch.length() / KvCache::kPageRows + 1 > decode_steps_.max_pages())
      return false;
    // The token of the started step is the branch's last; the one after it may need a page.
    if (!cache_.grow(row.slot, branch.cached + 2)) return false;
  }
  return true;
}

// Takes the oldest started step, after starting the next one if its rows are known.
void Engine::take_decode() {
  if (can_start_ahead()) decode_steps_.start();
  const std::vector<int64_t> tokens = decode_steps_.take();
  std::vector<ScheduledRows> taken;
  for (size_t i = 0; i < decode_rows_.size(); ++i) {
    DecodeRow& row = decode_rows_[i];
    if (!row.job) continue;
    if (tokens[i] < 0) {  // broken logits: the next step computes this row on the host and reports them
      skip_device_step_ = true;
      row.job = nullptr;
      continue;
    }
    row.job->on_token(row.branch, row.job->branches[row.branch].cached, tokens[i]);
    taken.push_back({row.job, row.branch, 1});
  }
  const auto now = std::chrono::steady_clock::now();
  pacer_.computed(static_cast<int64_t>(taken.size()),
                  std::chrono::duration<double>(now - std::exchange(decode_since_, now)).count(), 0, 0);
  stats_.rows += static_cast<int64_t>(taken.size());
  finish_step(taken);
  stats_.steps += taken.empty() ? 0 : 1;
  all_blocked_ = false;
  // Sequences may have ended, and branches of the others may have moved.
  const auto find_row = [&](const DecodeRow& row) -> DecodeRow {
    for (const auto& job : jobs_)
      for (size_t b = 0; job.get() == row.job && b < job->branches.size(); ++b)
        if (job->branches[b].slot == row.slot) return {row.job, b, row.slot};
    return {nullptr, 0, row.slot};
  };
  for (DecodeRow& row : decode_rows_)
    if (row.job) row = find_row(row);
}

}  // namespace makar
