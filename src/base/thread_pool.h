// A pool for thousands of small parallel regions per second: workers spin briefly, then sleep. The caller
// splits a region into numbered chunks; which thread runs a chunk is not defined, so results must not depend
// on it (docs/design.md, section 4).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace makar {

class ThreadPool {
 public:
  // 0 means one thread per core. The calling thread is one of them.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls body(i) once for each i in [0, count), on all threads, and returns when all are done. The first
  // exception thrown by a body is rethrown here. Regions do not nest: a body that calls run() runs it inline.
  void run(int64_t count, const std::function<void(int64_t)>& body);

  // Splits [0, size) into ranges of at least `grain` items, a few per thread, and calls body(begin, end).
  void for_ranges(int64_t size, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
  int threads_ = 1;
};

}  // namespace makar
