#include "infer/engine.h"

#include <algorithm>

#include "ops/shape.h"

namespace makar {
namespace {

constexpr int64_t kLogitRows = 64;  // rows of logits that exist at a time

// The keys before which no layer looks back: the widest window, or 0 where some layer sees everything.
int64_t widest_window(const StackSpec& stack, const SinkWindow& stream) {
  if (stack.block.cross) return 0;
  if (stack.windows.empty()) return stream.window;
  int64_t widest = 0;
  for (const int64_t own : stack.windows) {
    const int64_t window = own > 0 ? own : stream.window;
    if (window == 0) return 0;
    widest = std::max(widest, window);
  }
  return widest;
}

bool has_place(const Job& job) {
  return std::any_of(job.branches.begin(), job.branches.end(),
                     [](const Branch& branch) { return branch.slot.has_value(); });
}

// A page that nobody uses but this branch, and perhaps the prefixes.
bool holds_its_own(const KvCache& cache, const Branch& branch) {
  if (!branch.slot) return false;
  const auto& pages = cache.pages(*branch.slot);
  return std::any_of(pages.begin(), pages.end(),
                     [&](KvCache::Page page) { return page >= 0 && cache.users(page) <= 2; });
}

}  // namespace

Engine::Engine(const Model& model, ThreadPool& pool, EngineOptions options)
    : model_(model),
      pool_(pool),
      options_(options),
      cache_(model.spec().main(), 0, options.max_pages, options.cache),
      prefixes_(cache_),
      whole_(!model.spec().decoder),
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

// Pages of one adapter are nothing to another.
std::string Engine::salt(const Job& job) { return fmt::format("{}:{}", job.adapter, job.salt); }

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

// A branch gets its place in the cache, with what is known of its beginning.
bool Engine::place(Job& job, Branch& branch, std::vector<Piece>& pieces) {
  branch.cached = 0;
  const int64_t useful = std::min(branch.length() - 1, branch.want);
  if (options_.share_prefixes && job.source.empty() && useful >= KvCache::kPageRows) {
    const auto pages = prefixes_.find(salt(job), std::span(branch.tokens).first(static_cast<size_t>(useful)));
    branch.slot = cache_.adopt(pages);
    branch.cached = cache_.length(*branch.slot);
    stats_.reused += branch.cached;
    if (!job.reused) job.reused = branch.cached;
    return true;
  }
  const size_t slot = cache_.add();
  if (!job.source.empty()) {
    // What another branch read need not be read again.
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
      Context ctx{pool_};
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

// The last job behind `job` that holds pages is put off, else the last branch behind `branch` where the job's
// branches go on by themselves.
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
  // Whoever only shares pages frees none, until nobody else is left.
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
  if (fits()) {
    pieces.push_back({&job, index, count});
    budget -= count;
  } else if (&job == jobs_.front().get() && (index == 0 || !job.apart())) {
    // The first in line had everything there is and it was not enough.
    const int64_t tokens = branch.length() + static_cast<int64_t>(job.source.size());
    std::erase_if(pieces, [&](const Piece& p) { return p.job == &job; });
    job.fail(cache_, error_of(Error::Kind::kLimit, "cache",
                              "{} tokens need more than the {} pages of {} tokens there are; raise "
                              "--mem-budget or ask for less",
                              tokens, cache_.max_pages(), KvCache::kPageRows));
  }
}

// Where all places are taken, the last one who matters less gives up its own for one who waits.
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

// Whoever writes goes on first; what is left of the step reads prompts, in order.
std::vector<Engine::Piece> Engine::plan() {
  std::vector<Piece> pieces;
  int64_t budget = options_.step_tokens, placed = 0;
  for (const auto& job : jobs_)
    for (const Branch& branch : job->branches) placed += branch.slot ? 1 : 0;
  make_places(placed);
  for (const bool writing : {true, false})
    for (const auto& job : jobs_) {
      // A job that has begun takes all its branches along: it goes on when the last of them is ready.
      if (placed >= options_.max_branches && !has_place(*job)) continue;
      for (size_t b = 0; b < job->branches.size(); ++b) {
        const Branch& branch = job->branches[b];
        const bool writes = branch.slot && branch.cached > 0 && branch.cached >= branch.want;
        if (writing != writes) continue;
        placed += branch.slot ? 0 : 1;
        plan_branch(*job, b, budget, pieces);
      }
    }
  return pieces;
}

// Whole texts, as many as fit; the first one goes however long it is.
std::vector<Engine::Piece> Engine::plan_whole() {
  std::vector<Piece> pieces;
  int64_t budget = options_.step_tokens;
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
    batch.sequences.push_back({start, piece.count, branch.cached, branch.slot.value_or(0)});
  }
  Context ctx{pool_};
  if (adapted) ctx.row_adapters = adapters;
  ForwardContext f{ctx, whole_ ? nullptr : &cache_};
  f.stream = stream_;
  const Tensor hidden = whole_ ? model_.encode(f, batch) : model_.decode(f, batch, {}, nullptr);
  const size_t width = static_cast<size_t>(hidden.dim(1));
  for (const Wanted& w : wanted)
    if (w.job->wants_states())
      w.job->state(w.branch, w.index, hidden.span().subspan(static_cast<size_t>(w.row) * width, width));
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
    const Tensor logits = model_.lm_logits(ctx, ops::gather_rows(ctx, hidden, rows));
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
      prefixes_.add(salt(*piece.job), std::span(branch.tokens).first(static_cast<size_t>(branch.cached)),
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
  const std::vector<Piece> pieces = whole_ ? plan_whole() : plan();
  if (pieces.empty()) {
    check(jobs_.front()->done(), "a step computes something or finds that a job cannot go on");
    return true;
  }
  compute(pieces);
  settle(pieces);
  ++stats_.steps;
  return true;
}

}  // namespace makar
