// A limit for recursion, counted in bytes of the call stack: frames of one recursion differ in size, and a
// count of levels does not bound their sum.
#pragma once
#include <cstddef>
#include <cstdint>

namespace makar {

class StackGuard {
 public:
  // Allows `bytes` of stack below the caller, fewer where the thread has less left.
  explicit StackGuard(size_t bytes);
  // Whether the current call lies deeper than allowed.
  bool exceeded() const { return position() < lowest_; }

 private:
  [[gnu::always_inline]] static uintptr_t position() {
    return reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  }
  uintptr_t lowest_;  // the stack grows downwards on every machine this program runs on
};

}  // namespace makar
