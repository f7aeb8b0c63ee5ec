#include "serve/workers.h"

namespace makar {

Workers::Workers(int count) {
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
}

void Workers::stop() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

bool Workers::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    waiting_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void Workers::run() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      work();
    } catch (const std::exception&) {
      // Whatever it held is let go: a request that had no answer is told so.
    }
  }
}

}  // namespace makar
