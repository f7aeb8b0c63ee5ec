#include "serve/workers.h"

#include <sys/resource.h>
#include <unistd.h>

namespace makar {
namespace {

constexpr int kLongNice = 5;  // about a third of the CPU share of an engine thread

void lower_priority() { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLongNice); }

}  // namespace

Workers::Workers(int short_threads, int long_threads) {
  short_.threads = short_threads, long_.threads = long_threads;
  for (int i = 0; i < short_threads; ++i) threads_.emplace_back([this] { run(short_); });
  for (int i = 0; i < long_threads; ++i)
    threads_.emplace_back([this] {
      lower_priority();
      run(long_);
    });
}

void Workers::stop() {
  FairQueue<WorkItem> dropped_short, dropped_long;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    std::swap(dropped_short, short_.waiting);
    std::swap(dropped_long, long_.waiting);
  }
  short_.wake.notify_all();
  long_.wake.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

bool Workers::post(WorkItem item) {
  Lane& lane = item.is_long && long_.threads > 0 ? long_ : short_;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    const std::string caller = item.caller;
    lane.waiting.push(caller, item.bytes, std::move(item));
  }
  lane.wake.notify_one();
  return true;
}

bool Workers::may_run(const Lane& lane, const std::string& caller) {
  const auto found = lane.running.find(caller);
  return found == lane.running.end() || found->second < std::max(lane.threads - 1, 1);
}

void Workers::run(Lane& lane) {
  for (;;) {
    std::optional<std::pair<std::string, WorkItem>> next;
    {
      std::unique_lock lock(mutex_);
      lane.wake.wait(lock, [&] {
        if (stopping_) return true;
        next = lane.waiting.pop([&](const std::string& caller) { return may_run(lane, caller); });
        return next.has_value();
      });
      if (stopping_) return;
      ++lane.running[next->first];
    }
    if (!next->second.cancelled || !*next->second.cancelled) {
      try {
        next->second.run();
      } catch (const std::exception&) {
        // The item is released below; the destructor of an unanswered reply sends an error.
      }
    }
    next->second = {};
    {
      const std::lock_guard lock(mutex_);
      if (--lane.running[next->first] == 0) lane.running.erase(next->first);
    }
    lane.wake.notify_one();  // the caller's next item may have waited for this thread
  }
}

}  // namespace makar
