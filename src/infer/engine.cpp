#include "infer/engine.h"

#include <algorithm>
#include <chrono>

#include "ops/shape.h"

namespace makar {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kLogitRows = 64;  // maximum rows of logits held at once

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// The widest attention window of all layers; 0 if any layer attends to the full context.
int64_t widest_window(const StackSpec& stack, const SinkWindow& stream) {
  int64_t widest = 0;
  for (const BlockSpec& b : stack.blocks) {
    const int64_t window = b.attention.window > 0 ? b.attention.window : stream.window;
    if (window == 0 || b.cross) return 0;
    widest = std::max(widest, window);
  }
  return widest;
}

// The length up to which longrope uses its factors for short sequences; 0 without longrope.
int64_t stretch_after(const StackSpec& stack) {
  for (const BlockSpec& b : stack.blocks)
    if (b.attention.rope && b.attention.rope->scaling == ops::RopeScaling::kLongRope)
      return b.attention.rope->original_positions;
  return 0;
}

// True for a decoding branch: only its next token and draft tokens remain to be computed. Everything else is
// prefill: prompts, texts to score or embed, sequences recomputed after preemption.
bool decodes(const Branch& branch) {
  constexpr int64_t kMaxDrafted = 32;
  return branch.slot && branch.cached > 0 && branch.cached >= branch.want && branch.left() <= kMaxDrafted;
}

// How many of the remaining rows of a branch come before the first one whose logits are needed.
int64_t plain_rows(const Job& job, size_t index) {
  const Branch& branch = job.branches[index];
  const int64_t first = std::max(branch.want, branch.cached);
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

Engine::Engine(const Model& model, Device& device, EngineOptions options)
    : model_(model),
      device_(device),
      options_(options),
      cache_(model.spec().main(), 0, options.max_pages, options.cache, device.memory()),
      prefixes_(cache_),
      whole_(!model.spec().decoder),
      stretch_after_(stretch_after(model.spec().main())),
      stream_(sink_window(model.spec(), options.context)),
      window_(whole_ ? 0 : widest_window(*model.spec().decoder, stream_)) {
  check(options_.step_tokens > 0, "a step computes at least one token");
  if (options_.max_prefix_pages < 0 && cache_.page_bytes() > 0)
    options_.max_prefix_pages = std::max<int64_t>(device.memory().capacity() / 8 / cache_.page_bytes(), 1);
}

Engine::~Engine() {
  for (const auto& job : jobs_) job->stop(cache_);
}

std::vector<EngineSequence> Engine::sequences(size_t most) const {
  std::vector<EngineSequence> out;
  for (const auto& job : jobs_)
    for (const Branch& branch : job->branches)
      if (branch.slot && out.size() < most)
        out.push_back(
            {branch.length(), branch.cached, static_cast<int64_t>(cache_.pages(*branch.slot).size())});
  return out;
}

// Different adapters and different rotary positions never share cache pages.
std::string Engine::salt(const Job& job, const Branch& branch) {
  return fmt::format("{}:{}:{}", job.adapter, branch.stretched, job.salt);
}

void Engine::submit(std::shared_ptr<Job> job) {
  if (job->done()) return;
  const auto place = order_.place(jobs_, *job);
  jobs_.insert(place, std::move(job));
}

void Engine::cancel(const Job& job) {
  const auto it =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& other) { return other.get() == &job; });
  if (it == jobs_.end()) return;
  (*it)->stop(cache_);
  jobs_.erase(it);
}

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
  branch.stretched = stretch_after_ > 0 && branch.length() > stretch_after_;
  const int64_t useful = std::min(branch.length() - 1, branch.want);
  if (options_.share_prefixes && job.source.empty() && useful >= KvCache::kPageRows) {
    const std::span known = std::span(branch.tokens).first(static_cast<size_t>(useful));
    const auto pages = job.images ? prefixes_.find(salt(job, branch), job.images->keyed(known))
                                  : prefixes_.find(salt(job, branch), known);
    branch.slot = cache_.adopt(pages);
    branch.cached = cache_.length(*branch.slot);
    stats_.reused += branch.cached;
    if (!job.reused) job.reused = branch.cached;
    return true;
  }
  const size_t slot = cache_.add();
  if (!job.source.empty()) {
    // Another branch has already encoded the source: share its cross-attention cache.
    const auto reader = std::find_if(job.branches.begin(), job.branches.end(),
                                     [](const Branch& other) { return other.slot.has_value(); });
    if (reader != job.branches.end()) {
      cache_.share_cross(*reader->slot, slot);
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
      const std::vector<int32_t> adapters(job.source.size(), job.adapter);
      if (job.adapter >= 0) ctx.row_adapters = adapters;
      ForwardContext f{ctx, &cache_};
      model_.read_source(f, source, slot);
    }
  }
  branch.slot = slot;
  if (!job.reused) job.reused = 0;
  return true;
}

void Engine::add_prefix(const Job& job, const Branch& branch) {
  const std::span known = std::span(branch.tokens).first(static_cast<size_t>(branch.cached));
  if (job.images)
    prefixes_.add(salt(job, branch), job.images->keyed(known), cache_.pages(*branch.slot));
  else
    prefixes_.add(salt(job, branch), known, cache_.pages(*branch.slot));
  while (options_.max_prefix_pages > 0 && prefixes_.pages() > options_.max_prefix_pages &&
         prefixes_.evict()) {
  }
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
    bool held = false;
    for (size_t i = 0; i < (*it)->branches.size(); ++i) held |= preempt_branch(**it, i);
    if (!held) continue;
    ++stats_.preempted;
    return true;
  }
  if (!job.independent_branches()) return false;
  // Branches that only share pages are preempted last: they free none.
  for (const bool own : {true, false})
    for (size_t i = job.branches.size(); i-- > 0 && &job.branches[i] != &branch;) {
      if (own ? !has_unshared_page(cache_, job.branches[i]) : &branch != &job.branches.front()) continue;
      if (!preempt_branch(job, i)) continue;
      ++stats_.preempted;
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
    count = pacer_.rows_within(budget, branch.left(), plain_rows(job, index));
    return grow_or_preempt(job, branch, scheduled,
                           [&] { return cache_.grow(*branch.slot, branch.cached + count); });
  };
  const bool reads_source = !job.source.empty() && !has_slot(job);
  if (fits()) {
    scheduled.push_back({&job, index, count});
    const int64_t source = reads_source ? static_cast<int64_t>(job.source.size()) : 0;
    pacer_.take(budget, count + source, std::max<int64_t>(count - plain_rows(job, index), 0));
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
void Engine::free_slots(int64_t& placed) {
  for (const auto& job : jobs_) {
    if (placed < options_.max_branches) return;
    if (has_slot(*job)) continue;
    const auto victim = std::find_if(jobs_.rbegin(), jobs_.rend(), [&](const auto& other) {
      return other->priority < job->priority && has_slot(*other);
    });
    if (victim == jobs_.rend()) return;
    for (Branch& branch : (*victim)->branches) {
      placed -= branch.slot ? 1 : 0;
      Job::preempt(cache_, branch);
    }
    ++stats_.preempted;
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
  waits_only_ = false;
  StepPacer::Budget budget{options_.step_tokens};
  int64_t placed = 0;
  for (const auto& job : jobs_)
    for (Branch& branch : job->branches) {
      // A sequence that exceeds the limit is recomputed with the rotary factors of long sequences.
      if (branch.slot && stretch_after_ > 0 && !branch.stretched && branch.length() > stretch_after_)
        Job::preempt(cache_, branch);
      placed += branch.slot ? 1 : 0;
    }
  free_slots(placed);
  const auto plan_if = [&](StepPacer::Budget& from, const auto& wanted) {
    for (const auto& job : jobs_) {
      // A job that holds a slot may exceed max_branches with its other branches: it may need all of them to
      // advance.
      if (placed >= options_.max_branches && !has_slot(*job)) continue;
      for (size_t b = 0; b < job->branches.size(); ++b) {
        if (!wanted(*job, b)) continue;
        if (job->waits(b)) {
          waits_only_ = true;
          continue;
        }
        placed += job->branches[b].slot ? 0 : 1;
        plan_branch(*job, b, from, scheduled);
      }
    }
  };
  plan_if(budget, [](const Job& job, size_t b) { return decodes(job.branches[b]); });
  budget = prefill_budget(budget.rows, !scheduled.empty());
  const bool paced = options_.decode_step_seconds > 0;
  std::vector<const Branch*> finished;  // branches scheduled ahead of their turn; this step finishes them
  if (paced && jobs_.size() > 1) {
    const StepPacer::Budget half{budget.rows / 2, budget.seconds / 2};
    StepPacer::Budget share = half;
    int64_t free = options_.max_branches - placed;  // slots, in the order of the jobs
    const Job* last = nullptr;
    bool admitted = false;
    plan_if(share, [&](const Job& job, size_t b) {
      const Job& first = *jobs_.front();
      const Branch& branch = job.branches[b];
      if (&job != last) last = &job, admitted = has_slot(job) || free-- > 0;
      const bool ahead = admitted && &job != &first && job.priority >= first.priority && !decodes(branch) &&
                         !share.empty() &&
                         pacer_.rows_within(share, branch.left(), plain_rows(job, b)) == branch.left();
      if (ahead) finished.push_back(&branch);
      return ahead;
    });
    budget = {budget.rows - half.rows + share.rows, half.seconds + share.seconds};
  }
  plan_if(budget, [&](const Job& job, size_t b) {
    const Branch& branch = job.branches[b];
    return !decodes(branch) && std::find(finished.begin(), finished.end(), &branch) == finished.end();
  });
  return scheduled;
}

// Schedules as many whole texts as fit; the first one is scheduled whatever its length.
std::vector<Engine::ScheduledRows> Engine::plan_whole() {
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

void Engine::put_images(Job& job, const Branch& branch, int64_t count, int64_t first_row, Batch& batch,
                        std::vector<Tensor>& parts) {
  ImageInputs& p = *job.images;
  const auto at = [&](int64_t index) { return std::lower_bound(p.rows.begin(), p.rows.end(), index); };
  const auto first = at(branch.cached), last = at(branch.cached + count);
  if (first == last) return;
  p.compute(model_, device_, job.adapter);
  parts.push_back(p.features.slice(first - p.rows.begin(), last - p.rows.begin()));
  for (auto row = first; row != last; ++row) batch.feature_rows.push_back(first_row + *row - branch.cached);
}

void Engine::compute(const std::vector<ScheduledRows>& scheduled) {
  const auto start = Clock::now();
  Batch batch;
  const bool typed = std::any_of(scheduled.begin(), scheduled.end(), [](const ScheduledRows& chunk) {
    return !chunk.job->branches[chunk.branch].types.empty();
  });
  struct Wanted {
    Job* job;
    size_t branch;
    int64_t index, row;
  };
  std::vector<Wanted> wanted;
  std::vector<Tensor> images;
  std::vector<int32_t> adapters;
  bool adapted = false;
  for (const ScheduledRows& chunk : scheduled) {
    adapters.insert(adapters.end(), static_cast<size_t>(chunk.count), chunk.job->adapter);
    adapted = adapted || chunk.job->adapter >= 0;
    const Branch& branch = chunk.job->branches[chunk.branch];
    const int64_t first_row = batch.rows();
    for (int64_t i = branch.cached; i < branch.cached + chunk.count; ++i) {
      if (i >= branch.want) wanted.push_back({chunk.job, chunk.branch, i, batch.rows()});
      batch.tokens.push_back(branch.tokens[static_cast<size_t>(i)]);
      batch.positions.push_back(i);
      if (typed) batch.types.push_back(branch.types.empty() ? 0 : branch.types[static_cast<size_t>(i)]);
    }
    batch.sequences.push_back(
        {first_row, chunk.count, branch.cached, branch.slot.value_or(0), 0, branch.length()});
    if (chunk.job->images) put_images(*chunk.job, branch, chunk.count, first_row, batch, images);
  }
  Context ctx{device_};
  if (!images.empty()) batch.features = ops::concat(ctx, images, 0);
  if (adapted) ctx.row_adapters = adapters;
  ForwardContext f{ctx, whole_ ? nullptr : &cache_};
  f.stream = stream_;
  const Tensor hidden = whole_ ? model_.encode(f, batch) : model_.decode(f, batch, {}, nullptr);
  const size_t width = static_cast<size_t>(hidden.dim(1));
  const auto wants_states = [](const Wanted& w) { return w.job->wants_states(); };
  if (std::any_of(wanted.begin(), wanted.end(), wants_states)) {
    const Tensor states = hidden.host();
    for (const Wanted& w : wanted)
      if (wants_states(w))
        w.job->state(w.branch, w.index, states.span().subspan(static_cast<size_t>(w.row) * width, width));
  }
  std::erase_if(wanted, [](const Wanted& w) { return !w.job->wants_logits(w.branch, w.index); });
  if (options_.decode_step_seconds > 0) device_.finish();  // so that the logits are timed without the layers
  const auto logits_start = Clock::now();
  for (size_t from = 0; from < wanted.size(); from += kLogitRows) {
    const size_t to = std::min(wanted.size(), from + kLogitRows);
    std::vector<int64_t> rows;
    std::vector<int32_t> chosen;
    for (size_t i = from; i < to; ++i) {
      rows.push_back(wanted[i].row);
      if (adapted) chosen.push_back(adapters[static_cast<size_t>(wanted[i].row)]);
    }
    ctx.row_adapters = chosen;
    const Tensor logits = model_.lm_logits(ctx, ops::gather_rows(ctx, hidden, rows)).host();
    const size_t vocab = static_cast<size_t>(logits.dim(1));
    for (size_t i = from; i < to; ++i)
      wanted[i].job->row(wanted[i].branch, wanted[i].index, logits.span().subspan((i - from) * vocab, vocab));
  }
  stats_.rows += batch.rows();
  const auto end = Clock::now();
  pacer_.computed(batch.rows(), seconds_between(start, logits_start), static_cast<int64_t>(wanted.size()),
                  seconds_between(logits_start, end));
}

void Engine::finish_step(const std::vector<ScheduledRows>& scheduled) {
  for (const ScheduledRows& chunk : scheduled) {
    Branch& branch = chunk.job->branches[chunk.branch];
    const int64_t before = branch.cached / KvCache::kPageRows;
    branch.cached += chunk.count;
    if (whole_) continue;
    if (options_.share_prefixes && chunk.job->source.empty() && branch.cached / KvCache::kPageRows > before)
      add_prefix(*chunk.job, branch);
    if (window_ > 0) cache_.forget(*branch.slot, stream_.sinks, branch.cached - window_ + 1);
  }
  for (const auto& job : jobs_) {
    if (job->error) job->stop(cache_);
    if (!job->done() && job->ready()) job->advance(cache_);
    if (job->error) job->stop(cache_);
  }
  std::erase_if(jobs_, [](const auto& job) { return job->done(); });
}

bool Engine::step() {
  std::erase_if(jobs_, [](const auto& job) { return job->done(); });
  if (jobs_.empty()) return false;
  const std::vector<ScheduledRows> scheduled = whole_ ? plan_whole() : plan();
  if (scheduled.empty() && waits_only_) return true;
  waits_only_ = false;
  if (scheduled.empty()) {
    check(jobs_.front()->done(), "a step schedules rows or fails a job");
    return true;
  }
  compute(scheduled);
  finish_step(scheduled);
  ++stats_.steps;
  return true;
}

}  // namespace makar
