// A region is one word: its number and how many chunks nobody has taken yet. A thread takes a chunk by
// lowering that word, which fails once the region is over; so a worker that wakes late harms nothing and
// nobody waits for it.
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
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
  asm volatile("isb" ::: "memory");  // "yield" returns at once on the cores we know
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits for `ready`, at most `most`; `polite` offers the core to others meanwhile. A polite thread on a
// crowded machine loses its core for milliseconds, so it is for pools with more threads than cores, and for
// long waits.
template <class Ready>
bool spin(const Ready& ready, std::chrono::microseconds most, bool polite) {
  for (int i = 0; i < 200; ++i) {
    if (ready()) return true;
    pause_cpu();
  }
  const auto end = std::chrono::steady_clock::now() + most;
  do {
    for (int i = 0; i < 20; ++i) {
      if (ready()) return true;
      pause_cpu();
    }
    if (polite) std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

constexpr std::chrono::microseconds kAwake{100};  // a worker sleeps after this long without work
constexpr std::chrono::microseconds kPatient{
    200};  // a caller becomes polite after waiting this long for the last chunks

constexpr uint64_t number(uint64_t region) { return region >> 32; }
constexpr uint64_t left(uint64_t region) { return region & 0xffffffffu; }

thread_local bool inside_region = false;  // only to run nested regions inline

}  // namespace

struct ThreadPool::State {
  using Body = std::function<void(int64_t)>;

  alignas(64) std::atomic<uint64_t> region{0};  // number << 32 | chunks left
  std::atomic<const Body*> body{nullptr};
  std::atomic<int64_t> count{0};
  alignas(64) std::atomic<int64_t> unfinished{0};  // chunks
  alignas(64) std::atomic<int> sleeping{0};
  std::atomic<bool> stop{false};

  std::mutex one_region;  // callers take turns
  std::mutex sleep_mutex;
  std::condition_variable wake;
  std::mutex error_mutex;
  std::exception_ptr error;
  std::vector<std::thread> workers;
  bool crowded = false;  // more threads than cores

  // Takes chunks of region `mine` until none are left.
  void work(uint64_t mine) {
    int64_t done = 0;
    uint64_t now = region.load(std::memory_order_acquire);
    while (number(now) == mine && left(now) > 0) {
      // Valid if the exchange succeeds: the region still runs then, and these change between regions only.
      const Body* call = body.load(std::memory_order_relaxed);
      const int64_t chunk = count.load(std::memory_order_relaxed) - static_cast<int64_t>(left(now));
      if (!region.compare_exchange_weak(now, now - 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      try {
        (*call)(chunk);
      } catch (...) {
        done += fail();
      }
      ++done;
      now = region.load(std::memory_order_acquire);
    }
    if (done > 0) unfinished.fetch_sub(done, std::memory_order_acq_rel);
  }

  // Keeps the first exception and takes all chunks that are left, without running them.
  int64_t fail() {
    {
      std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
    uint64_t now = region.load(std::memory_order_acquire);
    while (!region.compare_exchange_weak(now, now - left(now), std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
    }
    return static_cast<int64_t>(left(now));
  }

  void worker() {
    inside_region = true;
    uint64_t seen = 0;
    while (!stop.load(std::memory_order_acquire)) {
      const auto ready = [&] { return number(region.load(std::memory_order_seq_cst)) != seen; };
      if (!spin(ready, kAwake, crowded)) {
        std::unique_lock lock(sleep_mutex);
        sleeping.fetch_add(1, std::memory_order_seq_cst);
        wake.wait(lock, ready);
        sleeping.fetch_sub(1, std::memory_order_seq_cst);
      }
      seen = number(region.load(std::memory_order_acquire));
      work(seen);
    }
  }

  void wake_workers() {
    if (sleeping.load(std::memory_order_seq_cst) == 0) return;
    std::lock_guard lock(sleep_mutex);  // a worker between its check and its sleep holds this
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  if (threads <= 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  threads_ = std::max(1, threads);
  state_->crowded = threads_ > static_cast<int>(std::thread::hardware_concurrency());
  for (int i = 1; i < threads_; ++i) state_->workers.emplace_back([s = state_.get()] { s->worker(); });
}

ThreadPool::~ThreadPool() {
  State& s = *state_;
  s.stop.store(true, std::memory_order_release);
  s.region.store((number(s.region.load()) + 1) << 32, std::memory_order_seq_cst);
  s.wake_workers();
  for (auto& worker : s.workers) worker.join();
}

void ThreadPool::run(int64_t count, const std::function<void(int64_t)>& body) {
  if (count <= 0) return;
  if (threads_ == 1 || count == 1 || inside_region || count > INT32_MAX) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  State& s = *state_;
  std::lock_guard turn(s.one_region);
  s.body.store(&body, std::memory_order_relaxed);
  s.count.store(count, std::memory_order_relaxed);
  s.unfinished.store(count, std::memory_order_relaxed);
  const uint64_t mine = (number(s.region.load(std::memory_order_relaxed)) + 1) & 0xffffffffu;
  s.region.store(mine << 32 | static_cast<uint64_t>(count), std::memory_order_seq_cst);
  s.wake_workers();
  inside_region = true;
  s.work(mine);
  inside_region = false;
  const auto finished = [&] { return s.unfinished.load(std::memory_order_acquire) == 0; };
  if (!spin(finished, kPatient, s.crowded))
    while (!spin(finished, kPatient, true)) {
    }
  if (s.error) std::rethrow_exception(std::exchange(s.error, nullptr));
}

void ThreadPool::for_ranges(int64_t size, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (size <= 0) return;
  const int64_t most = threads_ == 1 ? 1 : threads_ * 4;
  const int64_t chunks = std::clamp<int64_t>(size / std::max<int64_t>(grain, 1), 1, most);
  run(chunks, [&](int64_t i) { body(size * i / chunks, size * (i + 1) / chunks); });
}

}  // namespace makar
