// Writes one thing at a time while the caller goes on; what went wrong is told at the next call.
#pragma once
#include <functional>
#include <future>

#include "base/error.h"

namespace makar {

class BackgroundSave {
 public:
  ~BackgroundSave() { (void)wait(); }
  // Waits for the one before and gives its error; else starts `write` on a thread of its own.
  Status start(std::function<Status()> write);
  // The error of one that has ended by now; does not wait.
  Status poll();
  Status wait();

 private:
  std::future<Status> running_;
};

}  // namespace makar
