// The thread that steps the engine: requests join and leave between two steps, and all that are there share
// each forward (continuous batching).
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "infer/engine.h"
#include "serve/turns.h"

namespace makar {

// A request as the engine's thread sees it; everything virtual is called there and nowhere else.
class EngineTask {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~EngineTask() = default;

  virtual Status begin(Engine& engine) = 0;
  virtual bool done() = 0;
  virtual void finish() = 0;
  // Instead of finish(). Nothing is asked of the task afterwards.
  virtual void fail(const Error& why) = 0;
  // Gives back what it holds of the engine.
  virtual void release() = 0;
  // Whether it has got anywhere: what has not when its time is up is refused.
  virtual bool started() const { return true; }

  std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  Clock::time_point deadline = Clock::time_point::max();
  int32_t adapter = -1;  // of its jobs, and
  int64_t priority = 0;  // higher ones go first
  std::string salt;
};

struct EngineState {
  static constexpr size_t kShownSequences = 64;
  int64_t tasks = 0, steps = 0, rows = 0, reused = 0, preempted = 0, pages = 0, max_pages = 0,
          prefix_pages = 0;
  std::vector<EngineSequence> sequences;  // up to kShownSequences of them
  EngineState& operator+=(const EngineState& other);
};

class EngineLoop {
 public:
  EngineLoop(const Model& model, ThreadPool& pool, EngineOptions options, Turns& turns);
  ~EngineLoop() { stop(); }
  void stop();  // takes back what is there

  void submit(std::shared_ptr<EngineTask> task);
  void wake();  // something was cancelled
  EngineState state() const;
  int64_t waiting() const;        // tasks that the next step takes up
  int64_t bytes_to_come() const;  // pages that are not in use yet
  // How long the step under way has taken so far; 0 between steps.
  double seconds_in_step() const;

 private:
  void run();
  void take_new();
  void sweep();  // what was cancelled, is late or is done
  void fail_all(const std::string& why);
  void publish();
  std::unique_ptr<Engine> make_engine() { return std::make_unique<Engine>(model_, pool_, options_); }

  const Model& model_;
  ThreadPool& pool_;
  EngineOptions options_;
  Turns& turns_;
  std::unique_ptr<Engine> engine_;
  const int64_t page_bytes_;
  std::vector<std::shared_ptr<EngineTask>> tasks_;  // of the thread

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<EngineTask>> new_;
  bool stopping_ = false, woken_ = false;
  EngineState state_;
  std::atomic<int64_t> step_began_{0};  // nanoseconds of the clock; 0: between steps
  std::thread thread_;
};

}  // namespace makar
