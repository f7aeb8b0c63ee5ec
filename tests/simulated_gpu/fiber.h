// A function on a stack of its own, which runs until it pauses.
#pragma once
#include <cstddef>

namespace makar::simulated_gpu {

class Fiber {
 public:
  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() calls body(argument), which must not return.
  void start(void (*body)(void*), void* argument);
  void resume();
  void pause(bool last = false);  // from within; `last`: it is not resumed

 private:
  void* stack_ = nullptr;
  void* own_ = nullptr;     // the saved stack pointer of the fiber
  void* caller_ = nullptr;  // and of the one that resumed it
  // For AddressSanitizer.
  [[maybe_unused]] void *own_fake_ = nullptr, *caller_fake_ = nullptr;
  [[maybe_unused]] const void* caller_bottom_ = nullptr;
  [[maybe_unused]] size_t caller_size_ = 0;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;

  static void enter(Fiber* self);
};

}  // namespace makar::simulated_gpu
