// Ctrl-C as an event: while an Interrupts object exists, SIGINT does not end the program. It stays pending
// until take(), and wakes a thread that waits in poll() on fd().
#pragma once
#include <csignal>

namespace makar {

class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool pending() const;
  bool take();                    // clears a pending interrupt; false if there was none
  int fd() const { return fd_; }  // readable while one is pending

 private:
  int fd_ = -1;
  struct sigaction previous_action_ = {};
};

}  // namespace makar
