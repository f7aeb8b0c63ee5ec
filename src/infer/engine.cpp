#include "infer/engine.h"

#include <algorithm>
#include <chrono>

#include "ops/bf16.h"
#include "ops/shape.h"

namespace makar {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// The widest attention window of all layers; 0 if any layer attends to the full context.
int64_t widest_window(const StackSpec& stack, const SinkWindow& sinks) {
  int64_t widest = 0;
  for (const BlockSpec& b : stack.blocks) {
    const int64_t window = b.attention.window > 0 ? b.attention.window : sinks.window;
    if (window == 0 || b.cross) return 0;
    widest = std::max(widest, window);
  }
  return widest;
}

// The length up to which longrope uses its factors for short sequences; 0 without longrope.
int64_t long_rope_after(const StackSpec& stack) {
  for (const BlockSpec& b : stack.blocks)
    if (b.attention.rope && b.attention.rope->scaling == ops::RopeScaling::kLongRope)
      return b.attention.rope->original_positions;
  return 0;
}

// A model that computes in bf16 has bf16 keys and values, unless a smaller type is set. Attention sinks have
// no kernel in bf16.
CacheTypes cache_types(const Model& model, const EngineOptions& options) {
  const bool f32 = options.cache.k == DType::kF32 && options.cache.v == DType::kF32;
  const bool sinks = sink_window(model.spec(), options.context).sinks > 0;
  if (model.activations() != DType::kBF16 || !f32 || sinks) return options.cache;
  return {DType::kBF16, DType::kBF16};
}

// A row whose logits or states a job needs: token `index` of its branch, row `row` of the batch.
struct NeededRow {
  Job* job;
  size_t branch;
  int64_t index, row;
};

void pass_states(Context& ctx, const Tensor& hidden, const std::vector<NeededRow>& needed) {
  const size_t width = static_cast<size_t>(hidden.dim(1));
  const auto wants_states = [](const NeededRow& w) { return w.job->wants_states(); };
  if (std::none_of(needed.begin(), needed.end(), wants_states)) return;
  const Tensor states = ops::cast_to_f32(ctx, hidden).host();
  for (const NeededRow& w : needed)
    if (wants_states(w))
      w.job->on_hidden(w.branch, w.index, states.span().subspan(static_cast<size_t>(w.row) * width, width));
}

// `adapters`: of each row of the batch; empty without adapters.
void pass_logits(Context& ctx, const Model& model, const Tensor& hidden, const std::vector<NeededRow>& needed,
                 const std::vector<int32_t>& adapters) {
  for (size_t from = 0; from < needed.size(); from += kMaxLogitRows) {
    const size_t to = std::min(needed.size(), from + kMaxLogitRows);
    std::vector<int64_t> rows;
    std::vector<int32_t> selected_adapters;
    for (size_t i = from; i < to; ++i) {
      rows.push_back(needed[i].row);
      if (!adapters.empty()) selected_adapters.push_back(adapters[static_cast<size_t>(needed[i].row)]);
    }
    ctx.row_adapters = selected_adapters;
    const Tensor logits = model.lm_logits(ctx, ops::gather_rows(ctx, hidden, rows)).host();
    const size_t vocab = static_cast<size_t>(logits.dim(1));
    for (size_t i = from; i < to; ++i)
      needed[i].job->on_logits(needed[i].branch, needed[i].index,
                               logits.span().subspan((i - from) * vocab, vocab));
  }
}

}  // namespace

Engine::Engine(const Model& model, Device& device, EngineOptions options)
    : model_(model),
      device_(device),
      options_(options),
      cache_(model.spec().main(), 0, options.max_pages, cache_types(model, options), device.memory()),
      prefixes_(cache_),
      is_encoder_(!model.spec().decoder),
      long_rope_after_(long_rope_after(model.spec().main())),
      sink_window_(sink_window(model.spec(), options.context)),
      window_(is_encoder_ ? 0 : widest_window(*model.spec().decoder, sink_window_)),
      decode_steps_(model, device, cache_),
      device_steps_(options.device_steps.value_or(device.records_work()) && sink_window_.sinks == 0 &&
                    DecodeSteps::supports(model)) {
  check(options_.step_tokens > 0, "a step computes at least one token");
  if (options_.max_prefix_pages < 0 && cache_.page_bytes() > 0)
    options_.max_prefix_pages = std::max<int64_t>(device.memory().capacity() / 8 / cache_.page_bytes(), 1);
}

Engine::~Engine() {
  for (const auto& job : jobs_) job->stop(cache_);
}

std::vector<EngineSequence> Engine::sequences(size_t max) const {
  std::vector<EngineSequence> out;
  for (const auto& job : jobs_)
    for (const Branch& branch : job->branches)
      if (branch.slot && out.size() < max)
        out.push_back(
            {branch.length(), branch.cached, static_cast<int64_t>(cache_.pages(*branch.slot).size())});
  return out;
}

// Different adapters and different rotary positions never share cache pages.
std::string Engine::salt(const Job& job, const Branch& branch) {
  return fmt::format("{}:{}:{}", job.adapter, branch.uses_long_rope, job.salt);
}

void Engine::submit(std::shared_ptr<Job> job) {
  if (job->done()) return;
  const auto position = order_.schedule(jobs_, *job);
  jobs_.insert(position, std::move(job));
}

void Engine::cancel(const Job& job) {
  const auto it =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& other) { return other.get() == &job; });
  if (it == jobs_.end()) return;
  (*it)->stop(cache_);
  for (DecodeRow& row : decode_rows_)
    if (row.job == &job) row.job = nullptr;
  jobs_.erase(it);
}

void Engine::add_prefix(const Job& job, const Branch& branch) {
  const std::span cached_tokens = std::span(branch.tokens).first(static_cast<size_t>(branch.cached));
  if (job.images)
    prefixes_.add(salt(job, branch), job.images->keyed(cached_tokens), cache_.pages(*branch.slot));
  else
    prefixes_.add(salt(job, branch), cached_tokens, cache_.pages(*branch.slot));
  while (options_.max_prefix_pages > 0 && prefixes_.pages() > options_.max_prefix_pages &&
         prefixes_.evict()) {
  }
}

void Engine::add_image_rows(Job& job, const Branch& branch, int64_t count, int64_t first_row, Batch& batch,
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
  const bool any_types = std::any_of(scheduled.begin(), scheduled.end(), [](const ScheduledRows& chunk) {
    return !chunk.job->branches[chunk.branch].types.empty();
  });
  std::vector<NeededRow> needed;
  std::vector<Tensor> images;
  std::vector<int32_t> adapters;
  bool any_adapter = false;
  for (const ScheduledRows& chunk : scheduled) {
    adapters.insert(adapters.end(), static_cast<size_t>(chunk.count), chunk.job->adapter);
    any_adapter = any_adapter || chunk.job->adapter >= 0;
    const Branch& branch = chunk.job->branches[chunk.branch];
    const int64_t first_row = batch.rows();
    for (int64_t i = branch.cached; i < branch.cached + chunk.count; ++i) {
      if (i >= branch.first_needed) needed.push_back({chunk.job, chunk.branch, i, batch.rows()});
      batch.tokens.push_back(branch.tokens[static_cast<size_t>(i)]);
      batch.positions.push_back(i);
      if (any_types) batch.types.push_back(branch.types.empty() ? 0 : branch.types[static_cast<size_t>(i)]);
    }
    batch.sequences.push_back(
        {first_row, chunk.count, branch.cached, branch.slot.value_or(0), 0, branch.length()});
    if (chunk.job->images) add_image_rows(*chunk.job, branch, chunk.count, first_row, batch, images);
  }
  Context ctx{device_};
  ctx.activations = model_.activations();
  if (!images.empty()) batch.features = ops::concat(ctx, images, 0);
  if (!any_adapter) adapters.clear();
  ctx.row_adapters = adapters;
  ForwardContext f{ctx, is_encoder_ ? nullptr : &cache_};
  f.sink_window = sink_window_;
  const Tensor hidden = is_encoder_ ? model_.encode(f, batch) : model_.decode(f, batch, {}, nullptr);
  pass_states(ctx, hidden, needed);
  std::erase_if(needed, [](const NeededRow& w) { return !w.job->wants_logits(w.branch, w.index); });
  if (options_.decode_step_seconds > 0) device_.finish();  // so that the logits are timed without the layers
  const auto logits_start = Clock::now();
  pass_logits(ctx, model_, hidden, needed, adapters);
  stats_.rows += batch.rows();
  const auto end = Clock::now();
  pacer_.computed(batch.rows(), seconds_between(start, logits_start), static_cast<int64_t>(needed.size()),
                  seconds_between(logits_start, end));
}

void Engine::finish_step(const std::vector<ScheduledRows>& scheduled) {
  for (const ScheduledRows& chunk : scheduled) {
    Branch& branch = chunk.job->branches[chunk.branch];
    const int64_t before = branch.cached / KvCache::kPageRows;
    branch.cached += chunk.count;
    if (is_encoder_) continue;
    if (options_.share_prefixes && chunk.job->source.empty() && branch.cached / KvCache::kPageRows > before)
      add_prefix(*chunk.job, branch);
    if (window_ > 0) cache_.evict(*branch.slot, sink_window_.sinks, branch.cached - window_ + 1);
  }
  for (const auto& job : jobs_) {
    if (job->error) job->stop(cache_);
    if (!job->done() && job->ready()) job->advance(cache_);
    if (job->error) job->stop(cache_);
  }
  std::erase_if(jobs_, [](const auto& job) { return job->done(); });
}

bool Engine::step() {
  if (decode_steps_.started() > 0) {
    take_decode();
    return true;
  }
  std::erase_if(jobs_, [](const auto& job) { return job->done(); });
  if (jobs_.empty()) return false;
  const std::vector<ScheduledRows> scheduled = is_encoder_ ? plan_encoder() : plan();
  if (scheduled.empty() && all_blocked_) return true;
  all_blocked_ = false;
  if (scheduled.empty()) {
    check(jobs_.front()->done(), "a step schedules rows or fails a job");
    return true;
  }
  if (decodes_on_device(scheduled)) {
    start_decode(scheduled);
    take_decode();
    return true;
  }
  skip_device_step_ = false;
  compute(scheduled);
  finish_step(scheduled);
  ++stats_.steps;
  return true;
}

}  // namespace makar
