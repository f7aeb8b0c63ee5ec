// Scheduling of a step: cache slots, preemption, and which rows of which sequences are computed.
#include <algorithm>

#include "infer/engine.h"

namespace makar {
namespace {

// True for a decoding branch: only its next token and draft tokens remain to be computed. Everything else is
// prefill: prompts, texts to score or embed, sequences recomputed after preemption.
bool decodes(const Branch& branch) {
  constexpr int64_t kMaxDraftTokens = 32;
  return branch.slot && branch.cached > 0 && branch.cached >= branch.first_needed &&
         branch.left() <= kMaxDraftTokens;
}

// How many of the remaining rows of a branch come before the first one whose logits are needed.
int64_t rows_without_logits(const Job& job, size_t index) {
  const Branch& branch = job.branches[index];
  const int64_t first = std::max(branch.first_needed, branch.cached);
  return job.wants_logits(index, first) ? first - branch.cached : branch.left();
}

// True if the branch holds a page that no other branch uses (the prefix cache may still reference it).
bool has_unshared_page(const KvCache& cache, const Branch& branch) {
  if (!branch.slot) return false;
  const auto& pages = cache.pages(*branch.slot);
  return std::any_of(pages.begin(), pages.end(),
                     [&](KvCache::Page page) { return page >= 0 && cache.users(page) <= 2; });
}

}  // namespace

template <class Grow>
bool Engine::grow_or_preempt(Job& job, const Branch& branch, std::vector<ScheduledRows>& scheduled,
                             const Grow& grow) {
  while (!grow())
    if (!prefixes_.evict() && !preempt_after(job, branch, scheduled)) return false;
  return true;
}

// Assigns a cache slot to the branch and adopts the pages of a cached prefix, if any.
bool Engine::assign_slot(Job& job, Branch& branch, std::vector<ScheduledRows>& scheduled) {
  branch.cached = 0;
  order_.started(job);
  branch.uses_long_rope = long_rope_after_ > 0 && branch.length() > long_rope_after_;
  const int64_t max_reused = std::min(branch.length() - 1, branch.first_needed);
  if (options_.share_prefixes && job.source.empty() && max_reused >= KvCache::kPageRows) {
    const std::span reusable_tokens = std::span(branch.tokens).first(static_cast<size_t>(max_reused));
    const auto pages = job.images ? prefixes_.find(salt(job, branch), job.images->keyed(reusable_tokens))
                                  : prefixes_.find(salt(job, branch), reusable_tokens);
    branch.slot = cache_.adopt(pages);
    branch.cached = cache_.length(*branch.slot);
    stats_.reused_tokens += branch.cached;
    if (!job.reused_tokens) job.reused_tokens = branch.cached;
    return true;
  }
  const size_t slot = cache_.add();
  if (!job.source.empty()) {
    // Another branch has already encoded the source: share its cross-attention cache.
    const auto encoded_branch = std::find_if(job.branches.begin(), job.branches.end(),
                                             [](const Branch& other) { return other.slot.has_value(); });
    if (encoded_branch != job.branches.end()) {
      cache_.share_cross(*encoded_branch->slot, slot);
    } else {
      Batch source;
      if (job.images)
        source = pixel_batch(model_.spec(), job.images->pixels);
      else
        source.add(job.source);
      if (!grow_or_preempt(job, branch, scheduled, [&] { return cache_.grow_cross(slot, source.rows()); })) {
        cache_.release(slot);
        return false;
      }
      Context ctx{device_};
      ctx.activations = model_.activations();
      const std::vector<int32_t> adapters(job.source.size(), job.adapter);
      if (job.adapter >= 0) ctx.row_adapters = adapters;
      ForwardContext f{ctx, &cache_};
      model_.read_source(f, source, slot);
    }
  }
  branch.slot = slot;
  if (!job.reused_tokens) job.reused_tokens = 0;
  return true;
}

// Preempts the last job after `job` that holds pages. If there is none and the branches of `job` are
// independent, preempts one of its branches after `branch`.
bool Engine::preempt_after(Job& job, const Branch& branch, std::vector<ScheduledRows>& scheduled) {
  const auto preempt_branch = [&](Job& victim, size_t index) {
    if (!victim.branches[index].slot) return false;
    Job::preempt(cache_, victim.branches[index]);
    std::erase_if(scheduled, [&](const ScheduledRows& p) { return p.job == &victim && p.branch == index; });
    return true;
  };
  for (auto it = jobs_.rbegin(); it != jobs_.rend() && it->get() != &job; ++it) {
    bool any_preempted = false;
    for (size_t i = 0; i < (*it)->branches.size(); ++i) any_preempted |= preempt_branch(**it, i);
    if (!any_preempted) continue;
    ++stats_.preemptions;
    return true;
  }
  if (!job.independent_branches()) return false;
  // Branches that only share pages are preempted last: that frees no page.
  for (const bool unshared_only : {true, false})
    for (size_t i = job.branches.size(); i-- > 0 && &job.branches[i] != &branch;) {
      if (unshared_only ? !has_unshared_page(cache_, job.branches[i]) : &branch != &job.branches.front())
        continue;
      if (!preempt_branch(job, i)) continue;
      ++stats_.preemptions;
      return true;
    }
  return false;
}

void Engine::plan_branch(Job& job, size_t index, StepPacer::Budget& budget,
                         std::vector<ScheduledRows>& scheduled) {
  Branch& branch = job.branches[index];
  if (branch.left() == 0 || budget.empty()) return;
  int64_t count = 0;
  const auto fits = [&] {
    if (!branch.slot && !assign_slot(job, branch, scheduled)) return false;
    count = pacer_.rows_within(budget, branch.left(), rows_without_logits(job, index));
    return grow_or_preempt(job, branch, scheduled,
                           [&] { return cache_.grow(*branch.slot, branch.cached + count); });
  };
  const bool reads_source = !job.source.empty() && !has_slot(job);
  if (fits()) {
    scheduled.push_back({&job, index, count});
    const int64_t source = reads_source ? static_cast<int64_t>(job.source.size()) : 0;
    pacer_.take(budget, count + source, std::max<int64_t>(count - rows_without_logits(job, index), 0));
  } else if (&job == jobs_.front().get() && (index == 0 || !job.independent_branches())) {
    // The first job in the queue could use every page, and that was not enough.
    const int64_t tokens = branch.length() + static_cast<int64_t>(job.source.size());
    std::erase_if(scheduled, [&](const ScheduledRows& p) { return p.job == &job; });
    job.fail(cache_, error_of(Error::Kind::kLimit, "cache",
                              "{} tokens do not fit the cache of {} pages with {} tokens each; raise "
                              "`program.mem_budget` or shorten the request",
                              tokens, cache_.max_pages(), KvCache::kPageRows));
  }
}

// If all slots are taken, preempt the lowest-priority sequences to admit waiting jobs of higher priority.
void Engine::free_slots(int64_t& used_slots) {
  for (const auto& job : jobs_) {
    if (used_slots < options_.max_branches) return;
    if (has_slot(*job)) continue;
    const auto victim = std::find_if(jobs_.rbegin(), jobs_.rend(), [&](const auto& other) {
      return other->priority < job->priority && has_slot(*other);
    });
    if (victim == jobs_.rend()) return;
    for (Branch& branch : (*victim)->branches) {
      used_slots -= branch.slot ? 1 : 0;
      Job::preempt(cache_, branch);
    }
    ++stats_.preemptions;
  }
}

StepPacer::Budget Engine::prefill_budget(int64_t rows, bool decoding) const {
  const double seconds = decoding ? options_.decode_step_seconds : options_.prompt_step_seconds;
  return seconds > 0 ? pacer_.budget(rows, seconds) : StepPacer::Budget{rows};
}

// Decoding sequences are scheduled first; prefill gets the rest of the step. With pacing, up to half of the
// prefill rows go to prompts that finish in this step, so that short prompts do not wait behind long ones.
std::vector<Engine::ScheduledRows> Engine::plan() {
  std::vector<ScheduledRows> scheduled;
  all_blocked_ = false;
  StepPacer::Budget budget{options_.step_tokens};
  int64_t used_slots = 0;
  for (const auto& job : jobs_)
    for (Branch& branch : job->branches) {
      // A sequence that exceeds the limit is recomputed with the rotary factors of long sequences.
      if (branch.slot && long_rope_after_ > 0 && !branch.uses_long_rope && branch.length() > long_rope_after_)
        Job::preempt(cache_, branch);
      used_slots += branch.slot ? 1 : 0;
    }
  free_slots(used_slots);
  const auto plan_if = [&](StepPacer::Budget& from, const auto& eligible) {
    for (const auto& job : jobs_) {
      // A job that holds a slot may exceed max_branches with its other branches: it may need all of them to
      // advance.
      if (used_slots >= options_.max_branches && !has_slot(*job)) continue;
      for (size_t b = 0; b < job->branches.size(); ++b) {
        if (!eligible(*job, b)) continue;
        if (job->blocked(b)) {
          all_blocked_ = true;
          continue;
        }
        used_slots += job->branches[b].slot ? 0 : 1;
        plan_branch(*job, b, from, scheduled);
      }
    }
  };
  plan_if(budget, [](const Job& job, size_t b) { return decodes(job.branches[b]); });
  budget = prefill_budget(budget.rows, !scheduled.empty());
  const bool paced = options_.decode_step_seconds > 0;
  std::vector<const Branch*> scheduled_ahead;  // of their turn, because this step finishes them
  if (paced && jobs_.size() > 1) {
    const StepPacer::Budget half{budget.rows / 2, budget.seconds / 2};
    StepPacer::Budget share = half;
    int64_t free = options_.max_branches - used_slots;  // slots, in the order of the jobs
    const Job* last = nullptr;
    bool admitted = false;
    plan_if(share, [&](const Job& job, size_t b) {
      const Job& first = *jobs_.front();
      const Branch& branch = job.branches[b];
      if (&job != last) last = &job, admitted = has_slot(job) || free-- > 0;
      const bool ahead =
          admitted && &job != &first && job.priority >= first.priority && !decodes(branch) &&
          !share.empty() &&
          pacer_.rows_within(share, branch.left(), rows_without_logits(job, b)) == branch.left();
      if (ahead) scheduled_ahead.push_back(&branch);
      return ahead;
    });
    budget = {budget.rows - half.rows + share.rows, half.seconds + share.seconds};
  }
  plan_if(budget, [&](const Job& job, size_t b) {
    const Branch& branch = job.branches[b];
    return !decodes(branch) &&
           std::find(scheduled_ahead.begin(), scheduled_ahead.end(), &branch) == scheduled_ahead.end();
  });
  return scheduled;
}

// Schedules as many whole texts as fit; the first one is scheduled whatever its length.
std::vector<Engine::ScheduledRows> Engine::plan_encoder() {
  std::vector<ScheduledRows> scheduled;
  StepPacer::Budget budget = prefill_budget(options_.step_tokens, true);
  for (const auto& job : jobs_)
    for (size_t b = 0; b < job->branches.size(); ++b) {
      const int64_t count = job->branches[b].left();
      if (!scheduled.empty() && (budget.empty() || pacer_.rows_within(budget, count, count) < count))
        return scheduled;
      scheduled.push_back({job.get(), b, count});
      order_.started(*job);
      pacer_.take(budget, count, 0);
    }
  return scheduled;
}

}  // namespace makar
