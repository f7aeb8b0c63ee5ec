// Engines of several models take turns on all cores, first come, first served; none waits longer than one
// step of each of the others.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace makar {

class Turns {
 public:
  class Turn {
   public:
    explicit Turn(Turns& turns) : turns_(turns) {
      std::unique_lock lock(turns_.mutex_);
      const uint64_t number = turns_.next_++;
      turns_.changed_.wait(lock, [&] { return turns_.now_ == number; });
    }
    ~Turn() {
      {
        const std::lock_guard lock(turns_.mutex_);
        ++turns_.now_;
      }
      turns_.changed_.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns& turns_;
  };

  // Time that the engines spent in steps.
  void count_work(int64_t nanoseconds) { work_ += nanoseconds; }
  double work_seconds() const { return static_cast<double>(work_.load()) * 1e-9; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0, now_ = 0;
  std::atomic<int64_t> work_{0};
};

}  // namespace makar
