#include "infer/engine.h"

#include <algorithm>
#include <chrono>

#include "ops/shape.h"

namespace makar {
namespace {

constexpr int64_t kLogitRows = 64;  // maximum rows of logits held at once

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
  constexpr int64_t kMostGuessed = 32;
  return branch.slot && branch.cached > 0 && branch.cached >= branch.want && branch.left() <= kMostGuessed;
}

bool has_place(const Job& job) {
  return std::any_of(job.branches.begin(), job.branches.end(),
                     [](const Branch& branch) { return branch.slot.has_value(); });
}

// True if the branch holds a page that no other branch uses (the prefix cache may still reference it).
bool holds_its_own(const KvCache& cache, const Branch& branch) {
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
  const auto after = std::find_if(jobs_.begin(), jobs_.end(),
                                  [&](const auto& other) { return other->priority < job->priority; });
  jobs_.insert(after, std::move(job));
}

void Engine::cancel(const Job& job) {
  const auto it =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& other) { return other.get() == &job; });
  if (it == jobs_.end()) return;
  (*it)->stop(cache_);
  jobs_.erase(it);
}

template <class Grow>
bool Engine::make_room(Job& job, const Branch& branch, std::vector<Piece>& pieces, const Grow& grow) {
  while (!grow())
    if (!prefixes_.evict() && !preempt_after(job, branch, pieces)) return false;
  return true;
}

// Assigns a cache slot to the branch and adopts the pages of a cached prefix, if any.
bool Engine::place(Job& job, Branch& branch, std::vector<Piece>& pieces) {
  branch.cached = 0;
  branch.stretched = stretch_after_ > 0 && branch.length() > stretch_after_;
  const int64_t useful = std::min(branch.length() - 1, branch.want);
  if (options_.share_prefixes && job.source.empty() && useful >= KvCache::kPageRows) {
    const auto pages =
        prefixes_.find(salt(job, branch), std::span(branch.tokens).first(static_cast<size_t>(useful)));
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
      source.add(job.source);
      if (!make_room(job, branch, pieces, [&] { return cache_.grow_cross(slot, source.rows()); })) {
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

// Preempts the last job after `job` that holds pages. If there is none and the branches of `job` are
// independent, preempts one of its branches after `branch`.
bool Engine::preempt_after(Job& job, const Branch& branch, std::vector<Piece>& pieces) {
  const auto put_off = [&](Job& victim, size_t index) {
    if (!victim.branches[index].slot) return false;
    Job::put_off(cache_, victim.branches[index]);
    std::erase_if(pieces, [&](const Piece& p) { return p.job == &victim && p.branch == index; });
    return true;
  };
  for (auto it = jobs_.rbegin(); it != jobs_.rend() && it->get() != &job; ++it) {
    bool held = false;
    for (size_t i = 0; i < (*it)->branches.size(); ++i) held |= put_off(**it, i);
    if (!held) continue;
    ++stats_.preempted;
    return true;
  }
  if (!job.apart()) return false;
  // Branches that only share pages are preempted last: they free none.
  for (const bool own : {true, false})
    for (size_t i = job.branches.size(); i-- > 0 && &job.branches[i] != &branch;) {
      if (own ? !holds_its_own(cache_, job.branches[i]) : &branch != &job.branches.front()) continue;
      if (!put_off(job, i)) continue;
      ++stats_.preempted;
      return true;
    }
  return false;
}

void Engine::plan_branch(Job& job, size_t index, int64_t& budget, std::vector<Piece>& pieces) {
  Branch& branch = job.branches[index];
  if (branch.left() == 0 || budget == 0) return;
  int64_t count = 0;
  const auto fits = [&] {
    if (!branch.slot && !place(job, branch, pieces)) return false;
    count = std::min(branch.left(), budget);
    return make_room(job, branch, pieces, [&] { return cache_.grow(*branch.slot, branch.cached + count); });
  };
  const bool reads_source = !job.source.empty() && !has_place(job);
  if (fits()) {
    pieces.push_back({&job, index, count});
    budget -= count + (reads_source ? static_cast<int64_t>(job.source.size()) : 0);
    budget = std::max<int64_t>(budget, 0);
  } else if (&job == jobs_.front().get() && (index == 0 || !job.apart())) {
    // The first job in the queue could use every page, and that was not enough.
    const int64_t tokens = branch.length() + static_cast<int64_t>(job.source.size());
    std::erase_if(pieces, [&](const Piece& p) { return p.job == &job; });
    job.fail(cache_, error_of(Error::Kind::kLimit, "cache",
                              "{} tokens need more than the {} pages of {} tokens there are; raise "
                              "--mem-budget or ask for less",
                              tokens, cache_.max_pages(), KvCache::kPageRows));
  }
}

// If all slots are taken, preempt the lowest-priority sequences to admit waiting jobs of higher priority.
void Engine::make_places(int64_t& placed) {
  for (const auto& job : jobs_) {
    if (placed < options_.max_branches) return;
    if (has_place(*job)) continue;
    const auto victim = std::find_if(jobs_.rbegin(), jobs_.rend(), [&](const auto& other) {
      return other->priority < job->priority && has_place(*other);
    });
    if (victim == jobs_.rend()) return;
    for (Branch& branch : (*victim)->branches) {
      placed -= branch.slot ? 1 : 0;
      Job::put_off(cache_, branch);
    }
    ++stats_.preempted;
  }
}

int64_t Engine::prompt_rows(int64_t budget, bool decoding) const {
  const double seconds = decoding ? options_.decode_step_seconds : options_.prompt_step_seconds;
  return seconds > 0 ? std::min(budget, pacer_.rows_within(seconds)) : budget;
}

// Decoding sequences are scheduled first; prefill gets the rest of the step. With pacing, up to half of the
// prefill rows go to prompts that finish in this step, so that short prompts do not wait behind long ones.
std::vector<Engine::Piece> Engine::plan() {
  std::vector<Piece> pieces;
  waits_only_ = false;
  int64_t budget = options_.step_tokens, placed = 0;
  for (const auto& job : jobs_)
    for (Branch& branch : job->branches) {
      // A sequence that has become long is computed again with the positions of long sequences.
      if (branch.slot && stretch_after_ > 0 && !branch.stretched && branch.length() > stretch_after_)
        Job::put_off(cache_, branch);
      placed += branch.slot ? 1 : 0;
    }
  make_places(placed);
  const auto plan_if = [&](int64_t& rows, const auto& wanted) {
    for (const auto& job : jobs_) {
      // A job that holds a slot may exceed max_branches with its other branches: it may need all of them to
      // advance.
      if (placed >= options_.max_branches && !has_place(*job)) continue;
      for (size_t b = 0; b < job->branches.size(); ++b) {
        if (!wanted(*job, job->branches[b])) continue;
        if (job->waits(b)) {
          waits_only_ = true;
          continue;
        }
        placed += job->branches[b].slot ? 0 : 1;
        plan_branch(*job, b, rows, pieces);
      }
    }
  };
  plan_if(budget, [](const Job&, const Branch& branch) { return decodes(branch); });
  budget = prompt_rows(budget, !pieces.empty());
  const bool paced = options_.decode_step_seconds > 0;
  std::vector<const Branch*> finished;  // branches scheduled ahead of their turn; this step finishes them
  if (paced && jobs_.size() > 1) {
    int64_t share = budget / 2;
    plan_if(share, [&](const Job& job, const Branch& branch) {
      const Job& first = *jobs_.front();
      const bool ahead =
          &job != &first && job.priority >= first.priority && !decodes(branch) && branch.left() <= share;
      if (ahead) finished.push_back(&branch);
      return ahead;
    });
    budget -= budget / 2 - share;
  }
  plan_if(budget, [&](const Job&, const Branch& branch) {
    return !decodes(branch) && std::find(finished.begin(), finished.end(), &branch) == finished.end();
  });
  return pieces;
}

// Schedules as many whole texts as fit; the first one is scheduled whatever its length.
std::vector<Engine::Piece> Engine::plan_whole() {
  std::vector<Piece> pieces;
  int64_t budget = prompt_rows(options_.step_tokens, true);
  for (const auto& job : jobs_)
    for (size_t b = 0; b < job->branches.size(); ++b) {
      const int64_t count = job->branches[b].left();
      if (!pieces.empty() && count > budget) return pieces;
      pieces.push_back({job.get(), b, count});
      budget -= count;
    }
  return pieces;
}

void Engine::compute(const std::vector<Piece>& pieces) {
  Batch batch;
  const bool typed = std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) {
    return !piece.job->branches[piece.branch].types.empty();
  });
  struct Wanted {
    Job* job;
    size_t branch;
    int64_t index, row;
  };
  std::vector<Wanted> wanted;
  std::vector<int32_t> adapters;
  bool adapted = false;
  for (const Piece& piece : pieces) {
    adapters.insert(adapters.end(), static_cast<size_t>(piece.count), piece.job->adapter);
    adapted = adapted || piece.job->adapter >= 0;
    const Branch& branch = piece.job->branches[piece.branch];
    const int64_t start = batch.rows();
    for (int64_t i = branch.cached; i < branch.cached + piece.count; ++i) {
      if (i >= branch.want) wanted.push_back({piece.job, piece.branch, i, batch.rows()});
      batch.tokens.push_back(branch.tokens[static_cast<size_t>(i)]);
      batch.positions.push_back(i);
      if (typed) batch.types.push_back(branch.types.empty() ? 0 : branch.types[static_cast<size_t>(i)]);
    }
    batch.sequences.push_back(
        {start, piece.count, branch.cached, branch.slot.value_or(0), 0, branch.length()});
  }
  Context ctx{device_};
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
}

void Engine::settle(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    Branch& branch = piece.job->branches[piece.branch];
    const int64_t before = branch.cached / KvCache::kPageRows;
    branch.cached += piece.count;
    if (whole_) continue;
    if (options_.share_prefixes && piece.job->source.empty() && branch.cached / KvCache::kPageRows > before)
      prefixes_.add(salt(*piece.job, branch),
                    std::span(branch.tokens).first(static_cast<size_t>(branch.cached)),
                    cache_.pages(*branch.slot));
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
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const int64_t rows_before = stats_.rows;
  const std::vector<Piece> pieces = whole_ ? plan_whole() : plan();
  if (pieces.empty() && waits_only_) return true;
  waits_only_ = false;
  if (pieces.empty()) {
    check(jobs_.front()->done(), "a step computes something or finds that a job cannot go on");
    return true;
  }
  compute(pieces);
  settle(pieces);
  pacer_.computed(stats_.rows - rows_before, std::chrono::duration<double>(Clock::now() - start).count());
  ++stats_.steps;
  return true;
}

}  // namespace makar
