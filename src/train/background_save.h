// Writes one checkpoint at a time in the background; an error is reported at the next call.
#pragma once
#include <functional>
#include <future>

#include "base/error.h"

namespace makar {

class BackgroundSave {
 public:
  ~BackgroundSave() { (void)wait(); }
  // Waits for the previous save. Returns its error, or starts `write` on a background thread.
  Status start(std::function<Status()> write);
  // The error of a save that has finished; does not wait.
  Status poll();
  Status wait();

 private:
  std::future<Status> running_;
};

}  // namespace makar
