#include "cli/interrupts.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/error.h"

namespace makar {
namespace {

std::atomic<int> handler_fd{-1};  // the descriptor that the handler writes to
static_assert(std::atomic<int>::is_always_lock_free);

void on_interrupt(int) {
  const int error = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(handler_fd, &one, sizeof(one));
  errno = error;
}

}  // namespace

Interrupts::Interrupts() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  check(fd_ >= 0 && handler_fd < 0, "only one Interrupts object may exist, and it needs an eventfd");
  handler_fd = fd_;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;  // an interrupted write() continues
  sigaction(SIGINT, &action, &previous_action_);
}

Interrupts::~Interrupts() {
  sigaction(SIGINT, &previous_action_, nullptr);
  handler_fd = -1;
  ::close(fd_);
}

bool Interrupts::pending() const {
  pollfd event{fd_, POLLIN, 0};
  return ::poll(&event, 1, 0) > 0;
}

bool Interrupts::take() {
  uint64_t count = 0;
  return ::read(fd_, &count, sizeof(count)) == sizeof(count);
}

}  // namespace makar
