#include "base/stack_guard.h"

#include <pthread.h>

#include <algorithm>

namespace makar {
namespace {

// For calls below the last check, destructors and exceptions.
constexpr size_t kReservedBytes = size_t{64} << 10;

// The lowest address of this thread's stack; 0 where the system does not say.
uintptr_t stack_end() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  return known ? reinterpret_cast<uintptr_t>(lowest) : 0;
}

}  // namespace

StackGuard::StackGuard(size_t bytes) {
  const uintptr_t here = position(), end = stack_end();
  lowest_ = std::max(here > bytes ? here - bytes : 0, end + kReservedBytes);
}

}  // namespace makar
