#include "serve/engine_loop.h"

#include <algorithm>

#include "base/failure.h"

namespace makar {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(EngineTask::Clock::now().time_since_epoch())
      .count();
}

Error internal_error(const std::exception& e) {
  if (dynamic_cast<const OutOfMemory*>(&e)) return error_of(Error::Kind::kLimit, "memory", "{}", e.what());
  if (dynamic_cast<const DeviceFailure*>(&e)) return error_of(Error::Kind::kIo, "device", "{}", e.what());
  return error_of(Error::Kind::kIo, "engine", "internal error: {}", e.what());
}

// Bounds the time per step: short while sequences decode, so that a prefill delays streams by one step at
// most; longer when only prompts are prefilled.
EngineOptions with_step_times(EngineOptions options) {
  constexpr double kDecodeStepSeconds = 0.12, kPromptStepSeconds = 0.4;
  if (options.decode_step_seconds <= 0) options.decode_step_seconds = kDecodeStepSeconds;
  if (options.prompt_step_seconds <= 0) options.prompt_step_seconds = kPromptStepSeconds;
  return options;
}

}  // namespace

EngineState& EngineState::operator+=(const EngineState& other) {
  tasks += other.tasks, steps += other.steps, rows += other.rows, reused_tokens += other.reused_tokens;
  preemptions += other.preemptions, pages += other.pages, max_pages += other.max_pages;
  prefix_pages += other.prefix_pages;
  sequences.insert(sequences.end(), other.sequences.begin(), other.sequences.end());
  return *this;
}

EngineLoop::EngineLoop(const Model& model, Device& device, EngineOptions options, Turns& turns)
    : model_(model),
      device_(device),
      options_(with_step_times(options)),
      turns_(turns),
      engine_(make_engine()),
      page_bytes_(engine_->cache().page_bytes()) {
  publish();
  thread_ = std::thread([this] { run(); });
}

void EngineLoop::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void EngineLoop::submit(std::shared_ptr<EngineTask> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    submitted_.push_back(std::move(task));
  }
  wake_.notify_all();
}

void EngineLoop::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wake_.notify_all();
}

EngineState EngineLoop::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

int64_t EngineLoop::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(submitted_.size());
}

int64_t EngineLoop::free_page_bytes() const {
  const EngineState now = state();
  return std::max<int64_t>(now.max_pages - now.pages, 0) * page_bytes_;
}

double EngineLoop::seconds_in_step() const {
  const int64_t start = step_start_ns_;
  return start == 0 ? 0 : static_cast<double>(now_ns() - start) * 1e-9;
}

// An exception from a task ends that task only.
void EngineLoop::end(EngineTask& task, const std::optional<Error>& why) {
  try {
    task.release();
    if (why) task.fail(*why);
  } catch (const std::exception&) {
    // The reply is destroyed with the task, which sends an error to the client.
  }
}

void EngineLoop::begin_submitted() {
  std::vector<std::shared_ptr<EngineTask>> new_tasks;
  {
    const std::lock_guard lock(mutex_);
    new_tasks.swap(submitted_);
    woken_ = false;
  }
  if (!new_tasks.empty() && !engine_) renew_engine();
  for (auto& task : new_tasks) {
    if (*task->cancelled) continue;
    Status status = Done{};
    try {
      tasks_.reserve(tasks_.size() + 1);  // so that push_back() after begin() cannot throw
      if (engine_)
        status = task->begin(*engine_);
      else
        status = error_of(Error::Kind::kLimit, "memory", "not enough memory for the engine; try again later");
    } catch (const std::exception& e) {
      status = internal_error(e);
    }
    if (status.ok())
      tasks_.push_back(std::move(task));
    else
      end(*task, status.error());
  }
}

void EngineLoop::sweep() {
  const auto now = EngineTask::Clock::now();
  const auto ended = [&](const std::shared_ptr<EngineTask>& task) {
    if (*task->cancelled) return end(*task, std::nullopt), true;
    try {
      if (task->done()) {
        task->finish();
        return end(*task, std::nullopt), true;
      }
      if (now < task->deadline || task->started()) return false;
    } catch (const std::exception& e) {
      return end(*task, internal_error(e)), true;
    }
    end(*task, error_of(Error::Kind::kLimit, "time",
                        "the server is busy: the request waited too long; try again later"));
    return true;
  };
  std::erase_if(tasks_, ended);
}

// After an exception inside a step the engine's state is unknown: fail all tasks and create a new engine.
void EngineLoop::fail_all(const std::exception& e) {
  for (const auto& task : tasks_) end(*task, internal_error(e));
  tasks_.clear();
  renew_engine();
}

// If allocation fails, engine_ stays null; begin_submitted() retries for the next task.
void EngineLoop::renew_engine() {
  engine_.reset();
  try {
    engine_ = make_engine();
  } catch (const std::exception&) {
  }
}

void EngineLoop::publish() {
  if (!engine_) return;
  const EngineStats& stats = engine_->stats();
  const std::lock_guard lock(mutex_);
  state_.tasks = static_cast<int64_t>(tasks_.size());
  state_.steps = stats.steps, state_.rows = stats.rows, state_.reused_tokens = stats.reused_tokens;
  state_.preemptions = stats.preemptions, state_.max_pages = engine_->cache().max_pages();
  state_.pages = engine_->cache().pages_used(), state_.prefix_pages = engine_->prefix_pages();
  state_.sequences = engine_->sequences(EngineState::kMaxListedSequences);
}

void EngineLoop::run() {
  for (;;) {
    publish();
    {
      std::unique_lock lock(mutex_);
      const auto signalled = [this] { return stopping_ || woken_ || !submitted_.empty(); };
      // If all sequences wait for a token mask, the mask's thread calls wake(). The timeout is for deadlines.
      if (!tasks_.empty() && engine_->all_blocked())
        wake_.wait_for(lock, std::chrono::milliseconds(20), signalled);
      else
        wake_.wait(lock, [&] { return signalled() || !tasks_.empty(); });
      if (stopping_) break;
    }
    {
      const Turns::Turn turn(turns_);
      step_start_ns_ = now_ns();
      begin_submitted();
      sweep();
      try {
        if (!tasks_.empty()) engine_->step();
      } catch (const std::exception& e) {
        fail_all(e);
      }
      turns_.count_work(now_ns() - step_start_ns_);
      step_start_ns_ = 0;
    }
    sweep();
  }
  for (const auto& task : tasks_) end(*task, std::nullopt);
  tasks_.clear();
  const std::lock_guard lock(mutex_);
  submitted_.clear();
}

}  // namespace makar
