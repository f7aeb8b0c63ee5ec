// A few threads for what is too long for the server's thread and has nothing to do on the engine's: reading
// bodies, rendering templates, encoding texts, compiling grammars. How much waits is bounded by the gate.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace makar {

class Workers {
 public:
  explicit Workers(int count);
  ~Workers() { stop(); }
  // False: they are stopped, and it is not done.
  bool post(std::function<void()> work);
  void stop();  // finishes what it has begun, drops the rest

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace makar
