#include "serve/engine_loop.h"

#include <algorithm>

namespace makar {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(EngineTask::Clock::now().time_since_epoch())
      .count();
}

}  // namespace

EngineState& EngineState::operator+=(const EngineState& other) {
  tasks += other.tasks, steps += other.steps, rows += other.rows, reused += other.reused;
  preempted += other.preempted, pages += other.pages, max_pages += other.max_pages;
  prefix_pages += other.prefix_pages;
  sequences.insert(sequences.end(), other.sequences.begin(), other.sequences.end());
  return *this;
}

EngineLoop::EngineLoop(const Model& model, ThreadPool& pool, EngineOptions options, Turns& turns)
    : model_(model),
      pool_(pool),
      options_(options),
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
    new_.push_back(std::move(task));
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
  return static_cast<int64_t>(new_.size());
}

int64_t EngineLoop::bytes_to_come() const {
  const EngineState now = state();
  return std::max<int64_t>(now.max_pages - now.pages, 0) * page_bytes_;
}

double EngineLoop::seconds_in_step() const {
  const int64_t began = step_began_;
  return began == 0 ? 0 : static_cast<double>(now_ns() - began) * 1e-9;
}

void EngineLoop::take_new() {
  std::vector<std::shared_ptr<EngineTask>> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(new_);
    woken_ = false;
  }
  for (auto& task : taken) {
    if (*task->cancelled) continue;
    Status begun = Done{};
    try {
      begun = task->begin(*engine_);
    } catch (const std::exception& e) {
      begun = error_of(Error::Kind::kIo, "engine", "internal error: {}", e.what());
    }
    if (begun.ok()) {
      tasks_.push_back(std::move(task));
    } else {
      task->release();
      task->fail(begun.error());
    }
  }
}

void EngineLoop::sweep() {
  const auto now = EngineTask::Clock::now();
  const auto leaves = [&](const std::shared_ptr<EngineTask>& task) {
    if (*task->cancelled) return task->release(), true;
    if (task->done()) {
      try {
        task->finish();
      } catch (const std::exception& e) {
        task->fail(error_of(Error::Kind::kIo, "engine", "internal error: {}", e.what()));
      }
      return task->release(), true;
    }
    if (now < task->deadline || task->started()) return false;
    task->release();
    task->fail(error_of(Error::Kind::kLimit, "time", "the server is busy: the request waited too long"));
    return true;
  };
  std::erase_if(tasks_, leaves);
}

// A broken contract inside a step leaves the engine in no known state: whoever was in it is told, and the
// next ones get a new one.
void EngineLoop::fail_all(const std::string& why) {
  for (const auto& task : tasks_) task->release();
  for (const auto& task : tasks_) task->fail(error_of(Error::Kind::kIo, "engine", "internal error: {}", why));
  tasks_.clear();
  engine_ = make_engine();
}

void EngineLoop::publish() {
  const EngineStats& stats = engine_->stats();
  const std::lock_guard lock(mutex_);
  state_.tasks = static_cast<int64_t>(tasks_.size());
  state_.steps = stats.steps, state_.rows = stats.rows, state_.reused = stats.reused;
  state_.preempted = stats.preempted, state_.max_pages = engine_->cache().max_pages();
  state_.pages = engine_->cache().pages_used(), state_.prefix_pages = engine_->prefix_pages();
  state_.sequences = engine_->sequences(EngineState::kShownSequences);
}

void EngineLoop::run() {
  for (;;) {
    publish();
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || woken_ || !new_.empty() || !tasks_.empty(); });
      if (stopping_) break;
    }
    {
      const Turns::Turn turn(turns_);  // a task may compute where it begins
      step_began_ = now_ns();
      take_new();
      sweep();
      try {
        if (!tasks_.empty()) engine_->step();
      } catch (const std::exception& e) {
        fail_all(e.what());
      }
      step_began_ = 0;
    }
    sweep();
  }
  for (const auto& task : tasks_) task->release();
  tasks_.clear();
  const std::lock_guard lock(mutex_);
  new_.clear();
}

}  // namespace makar
