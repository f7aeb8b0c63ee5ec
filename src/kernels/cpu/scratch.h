// Scratch buffers of kernels.
#pragma once
#include <cstddef>
#include <cstdint>

namespace makar::kernels {

// Memory from the shared block pool, aligned to cache lines. Each thread keeps a few small freed buffers for
// its next requests: a decode step runs thousands of small tasks, which would wait for the pool's lock.
class Scratch {
 public:
  explicit Scratch(int64_t bytes);
  static Scratch of_floats(int64_t count) { return Scratch(count * int64_t{sizeof(float)}); }
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::byte* get() const { return data_; }  // nullptr if the size is 0
  float* floats() const { return reinterpret_cast<float*>(data_); }

 private:
  size_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace makar::kernels
