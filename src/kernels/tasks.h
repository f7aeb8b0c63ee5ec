// What the products have in common: memory for one call, how their work is cut into tasks, the bias at the
// end.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/gemm.h"
#include "tensor/block_pool.h"

namespace makar::kernels {

constexpr int64_t kStream = int64_t{1} << 20;  // bytes of weights that are worth a task of their own
constexpr int64_t kTasksPerThread = 6;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Scratch {
 public:
  explicit Scratch(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)), data_(BlockPool::shared().take(bytes_)) {}
  static Scratch of_floats(int64_t count) { return Scratch(count * int64_t{sizeof(float)}); }
  ~Scratch() { BlockPool::shared().give(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::byte* get() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }

 private:
  size_t bytes_;
  std::byte* data_;
};

// To the rows [i0, i1) and columns [j0, j1) of an output that has one.
inline void add_bias(const GemmOutput& out, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  if (!out.bias) return;
  for (int64_t i = i0; i < i1; ++i) {
    float* c = out.c + i * out.ldc;
    for (int64_t j = j0; j < j1; ++j) c[j] += out.bias[j];
  }
}

}  // namespace makar::kernels
