// Ctrl-C as an event: while an object exists, SIGINT does not end the program. It is remembered until take(),
// and wakes a thread that waits in poll() on fd(), whenever it arrives.
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
  bool take();                    // clears a pending interrupt; whether there was one
  int fd() const { return fd_; }  // readable while one is pending

 private:
  int fd_ = -1;
  struct sigaction before_ = {};
};

}  // namespace makar
