// Work stealing: each thread owns a range of a region's chunks and takes them from the front; a thread whose
// range is empty steals from the back of the others' ranges. So each thread reads contiguous memory and all
// finish together. A region cannot end while a taken chunk is unfinished, so the body that a thread loads
// after taking a chunk belongs to that chunk's region, however late the thread is.
// On a machine with several NUMA nodes each worker stays on one node, so that the thread that wrote a part of
// a buffer first, and so decided on which node its pages lie, also reads that part in later regions.
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

#include "base/cores.h"

namespace makar {
namespace {

inline void pause_cpu() {
#if defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // "yield" returned immediately on the cores measured
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits for `ready`, for at most `limit`. With `yields` the thread yields its core while it waits. On a
// busy machine that can cost milliseconds, so it is used when the pool has more threads than cores, and for
// long waits.
template <class Ready>
bool spin(const Ready& ready, std::chrono::microseconds limit, bool yields) {
  for (int i = 0; i < 200; ++i) {  // a short wait does not read the clock
    if (ready()) return true;
    pause_cpu();
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < 20; ++i) {
      if (ready()) return true;
      pause_cpu();
    }
    if (yields) std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

constexpr std::chrono::microseconds kSpinBeforeSleep{100};  // an idle worker sleeps after this long
constexpr std::chrono::microseconds kSpinBeforeYield{200};  // a caller waits this long for the last chunks

// The chunks of a range that no thread has taken: first << 32 | end.
class alignas(64) Chunks {
 public:
  void set(int64_t first, int64_t end) {
    word_.store(static_cast<uint64_t>(first) << 32 | static_cast<uint64_t>(end), std::memory_order_release);
  }
  // Takes one chunk; -1 when none are left.
  int64_t take(bool front) {
    uint64_t now = word_.load(std::memory_order_acquire);
    while (first(now) < end(now)) {
      const uint64_t rest = front ? now + (uint64_t{1} << 32) : now - 1;
      if (word_.compare_exchange_weak(now, rest, std::memory_order_acq_rel, std::memory_order_acquire))
        return front ? first(now) : end(now) - 1;
    }
    return -1;
  }
  // Takes all remaining chunks and returns how many there were.
  int64_t take_all() {
    const uint64_t now = word_.exchange(0, std::memory_order_acq_rel);
    return end(now) - first(now);
  }

 private:
  static int64_t first(uint64_t word) { return static_cast<int64_t>(word >> 32); }
  static int64_t end(uint64_t word) { return static_cast<int64_t>(word & 0xffffffffu); }
  std::atomic<uint64_t> word_{0};
};

thread_local bool inside_region = false;  // set while a body runs, so that nested regions run inline

}  // namespace

struct ThreadPool::State {
  using Body = std::function<void(int64_t)>;

  alignas(64) std::atomic<uint64_t> region{0};  // how many regions have started
  std::atomic<const Body*> body{nullptr};
  std::vector<Chunks> chunks;                      // one range per thread
  alignas(64) std::atomic<int64_t> unfinished{0};  // chunks not yet finished
  alignas(64) std::atomic<int> sleeping{0};
  std::atomic<bool> stop{false};

  std::mutex one_region;  // one region at a time
  std::mutex sleep_mutex;
  std::condition_variable wake;
  std::mutex error_mutex;
  std::exception_ptr error;
  std::vector<std::thread> workers;
  bool oversubscribed = false;  // more threads than cores

  // Takes chunks until none are left: first from the range of thread `self`, then from the other ranges.
  void work(size_t self) {
    int64_t done = 0;
    for (size_t i = 0; i < chunks.size(); ++i) {
      Chunks& from = chunks[(self + i) % chunks.size()];
      for (int64_t chunk = from.take(i == 0); chunk >= 0; chunk = from.take(i == 0)) {
        try {
          (*body.load(std::memory_order_relaxed))(chunk);
        } catch (...) {
          done += fail();
        }
        ++done;
      }
    }
    if (done > 0) unfinished.fetch_sub(done, std::memory_order_acq_rel);
  }

  // Stores the first exception and takes all remaining chunks without running them.
  int64_t fail() {
    {
      std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
    int64_t taken = 0;
    for (Chunks& c : chunks) taken += c.take_all();
    return taken;
  }

  void worker(size_t self) {
    inside_region = true;
    uint64_t last_region = 0;
    while (!stop.load(std::memory_order_acquire)) {
      const auto ready = [&] { return region.load(std::memory_order_seq_cst) != last_region; };
      if (!spin(ready, kSpinBeforeSleep, oversubscribed)) {
        std::unique_lock lock(sleep_mutex);
        sleeping.fetch_add(1, std::memory_order_seq_cst);
        wake.wait(lock, ready);
        sleeping.fetch_sub(1, std::memory_order_seq_cst);
      }
      last_region = region.load(std::memory_order_acquire);
      work(self);
    }
  }

  void wake_workers() {
    if (sleeping.load(std::memory_order_seq_cst) == 0) return;
    std::lock_guard lock(sleep_mutex);  // held by a worker between its check and its sleep
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  const Cores& machine = cores();
  threads_ = threads > 0 ? threads : machine.threads;
  state_->oversubscribed = threads_ > machine.usable;
  state_->chunks = std::vector<Chunks>(static_cast<size_t>(threads_));
  for (int i = 1; i < threads_; ++i)
    state_->workers.emplace_back([this, s = state_.get(), &machine, i] {
      if (!machine.nodes.empty()) run_on(machine.node_of(i, threads_).cpus);
      s->worker(static_cast<size_t>(i));
    });
}

ThreadPool::~ThreadPool() {
  State& s = *state_;
  s.stop.store(true, std::memory_order_release);
  s.region.fetch_add(1, std::memory_order_seq_cst);
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
  s.unfinished.store(count, std::memory_order_relaxed);
  for (int64_t t = 0; t < threads_; ++t)
    s.chunks[static_cast<size_t>(t)].set(count * t / threads_, count * (t + 1) / threads_);
  s.region.fetch_add(1, std::memory_order_seq_cst);
  s.wake_workers();
  inside_region = true;
  s.work(0);
  inside_region = false;
  const auto finished = [&] { return s.unfinished.load(std::memory_order_acquire) == 0; };
  if (!spin(finished, kSpinBeforeYield, s.oversubscribed))
    while (!spin(finished, kSpinBeforeYield, true)) {
    }
  if (s.error) std::rethrow_exception(std::exchange(s.error, nullptr));
}

void ThreadPool::for_ranges(int64_t size, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (size <= 0) return;
  const int64_t limit = threads_ == 1 ? 1 : threads_ * 4;
  const int64_t chunks = std::clamp<int64_t>(size / std::max<int64_t>(grain, 1), 1, limit);
  run(chunks, [&](int64_t i) { body(size * i / chunks, size * (i + 1) / chunks); });
}

}  // namespace makar
