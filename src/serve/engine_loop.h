// The thread that steps the engine: requests join and leave between steps, and all active ones share each
// forward pass (continuous batching).
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "infer/engine.h"
#include "serve/turns.h"

namespace makar {

// A request in the engine. All virtual functions are called on the engine thread only.
class EngineTask : public std::enable_shared_from_this<EngineTask> {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~EngineTask() = default;

  virtual Status begin(Engine& engine) = 0;
  virtual bool done() = 0;
  virtual void finish() = 0;
  // Called instead of finish(), as the last call to the task.
  virtual void fail(const Error& why) = 0;
  // Releases the task's engine resources.
  virtual void release() = 0;
  // Whether it has produced output; a task that has not is refused at its deadline.
  virtual bool started() const { return true; }

  // Runs a function on another thread, to serialize results off the engine thread. Empty: runs inline.
  std::function<void(std::function<void()>)> run_on_worker;
  std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  Clock::time_point deadline = Clock::time_point::max();
  int32_t adapter = -1;  // adapter of its jobs; -1: none
  int64_t priority = 0;  // higher values are scheduled first
  std::string salt;
};

struct EngineState {
  static constexpr size_t kMaxListedSequences = 64;
  int64_t tasks = 0, steps = 0, rows = 0, reused_tokens = 0, preemptions = 0, pages = 0, max_pages = 0,
          prefix_pages = 0;
  std::vector<EngineSequence> sequences;  // the first kMaxListedSequences
  EngineState& operator+=(const EngineState& other);
};

class EngineLoop {
 public:
  EngineLoop(const Model& model, Device& device, EngineOptions options, Turns& turns);
  ~EngineLoop() { stop(); }
  void stop();  // drops all tasks and joins the thread

  void submit(std::shared_ptr<EngineTask> task);
  void wake();  // after a cancellation
  EngineState state() const;
  int64_t waiting() const;          // tasks submitted but not yet begun
  int64_t free_page_bytes() const;  // bytes of cache pages not yet in use
  // A device with its own memory may be used only during a turn.
  Device& device() const { return device_; }
  Turns& turns() const { return turns_; }
  // Elapsed time of the current step; 0 between steps.
  double seconds_in_step() const;

 private:
  void run();
  void begin_submitted();  // passes submitted tasks to the engine
  void sweep();            // removes tasks that are cancelled, past their deadline or done
  static void end(EngineTask& task, const std::optional<Error>& why);
  void fail_all(const std::exception& e);
  void renew_engine();
  void publish();
  std::unique_ptr<Engine> make_engine() { return std::make_unique<Engine>(model_, device_, options_); }

  const Model& model_;
  Device& device_;
  EngineOptions options_;
  Turns& turns_;
  std::unique_ptr<Engine> engine_;
  const int64_t page_bytes_;
  std::vector<std::shared_ptr<EngineTask>> tasks_;  // used only by the engine thread

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<EngineTask>> submitted_;
  bool stopping_ = false, woken_ = false;
  EngineState state_;
  std::atomic<int64_t> step_start_ns_{0};  // steady clock; 0: between steps
  std::thread thread_;
};

}  // namespace makar
