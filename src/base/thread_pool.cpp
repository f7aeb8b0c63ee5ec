#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace makar {
namespace {

inline void pause_cpu() {
#if defined(__aarch64__)
  asm volatile("yield");
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

constexpr int kSpins = 4000;  // some 10-20 microseconds before a worker sleeps

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<uint64_t> epoch{0};  // grows by one with each region
  std::atomic<bool> stop{false};

  std::mutex region;  // one region at a time

  const std::function<void(int64_t)>* body = nullptr;
  int64_t count = 0;
  std::atomic<int64_t> next{0};
  std::atomic<int> busy{0};
  std::mutex error_mutex;
  std::exception_ptr error;

  void work() {
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      try {
        (*body)(i);
      } catch (...) {
        std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
    }
  }

  void worker() {
    uint64_t seen = 0;
    for (;;) {
      for (int spin = 0; spin < kSpins && epoch.load(std::memory_order_acquire) == seen; ++spin) pause_cpu();
      if (epoch.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return epoch.load(std::memory_order_acquire) != seen; });
      }
      seen = epoch.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_acquire)) return;
      work();
      busy.fetch_sub(1, std::memory_order_acq_rel);
    }
  }
};

namespace {
thread_local bool inside_region = false;  // only to run nested regions inline
}

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  if (threads <= 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  threads_ = std::max(1, threads);
  for (int i = 1; i < threads_; ++i) {
    state_->workers.emplace_back([s = state_.get()] {
      inside_region = true;
      s->worker();
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop.store(true, std::memory_order_release);
    state_->epoch.fetch_add(1, std::memory_order_release);
  }
  state_->wake.notify_all();
  for (auto& worker : state_->workers) worker.join();
}

void ThreadPool::run(int64_t count, const std::function<void(int64_t)>& body) {
  if (count <= 0) return;
  if (threads_ == 1 || count == 1 || inside_region) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  State& s = *state_;
  std::lock_guard region(s.region);
  s.body = &body;
  s.count = count;
  s.next.store(0, std::memory_order_relaxed);
  s.busy.store(threads_ - 1, std::memory_order_relaxed);
  {
    std::lock_guard lock(s.mutex);
    s.epoch.fetch_add(1, std::memory_order_release);
  }
  s.wake.notify_all();
  inside_region = true;
  s.work();
  inside_region = false;
  while (s.busy.load(std::memory_order_acquire) != 0) pause_cpu();
  if (s.error) std::rethrow_exception(std::exchange(s.error, nullptr));
}

void ThreadPool::for_ranges(int64_t size, int64_t grain,
                            const std::function<void(int64_t, int64_t)>& body) {
  if (size <= 0) return;
  const int64_t most = threads_ == 1 ? 1 : threads_ * 4;
  const int64_t chunks = std::clamp<int64_t>(size / std::max<int64_t>(grain, 1), 1, most);
  run(chunks, [&](int64_t i) { body(size * i / chunks, size * (i + 1) / chunks); });
}

}  // namespace makar
