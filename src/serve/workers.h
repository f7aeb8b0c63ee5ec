// Threads for work that is too long for the server thread and does not belong on the engine thread: parsing
// bodies, rendering templates, tokenization, compiling grammars. There are two lanes with separate threads:
// short work never waits behind long work, and long work runs at a lower priority than the engine. The gate
// limits how much work can wait.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "serve/fair_queue.h"

namespace makar {

struct WorkItem {
  std::function<void()> run;
  std::string caller = {};  // API key name or client address
  size_t bytes = 0;         // input size
  bool is_long = false;     // lane
  // Set when the client has disconnected: the item is dropped instead of run.
  std::shared_ptr<const std::atomic<bool>> cancelled = nullptr;
};

class Workers {
 public:
  // With long_threads = 0 both lanes share the short threads.
  explicit Workers(int short_threads, int long_threads = 0);
  ~Workers() { stop(); }
  // Returns false if stopped; the item is not run.
  bool post(WorkItem item);
  bool post(std::function<void()> run) { return post(WorkItem{std::move(run)}); }
  void stop();  // finishes running items, drops queued ones

 private:
  struct Lane {
    int threads = 0;
    FairQueue<WorkItem> waiting;
    std::unordered_map<std::string, int> running;  // by caller
    std::condition_variable wake;
  };
  void run(Lane& lane);
  // In a lane with several threads, one caller never occupies all of them.
  static bool may_run(const Lane& lane, const std::string& caller);

  std::mutex mutex_;
  Lane short_, long_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace makar
