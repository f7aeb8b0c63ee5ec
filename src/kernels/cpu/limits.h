// Measured limits of this machine: memory bandwidth with one sequential stream per thread, and peak
// arithmetic throughput. Speeds are reported relative to these.
#pragma once
#include "base/thread_pool.h"
#include "kernels/cpu/table.h"
#include "kernels/device.h"
#include "tensor/tensor.h"

namespace makar::kernels {

// Reads the buffer once, one slice per thread.
class MemoryStream {
 public:
  MemoryStream(ThreadPool& pool, int64_t bytes) : pool_(pool), data_(Tensor::zeros({bytes / 4})) {}
  int64_t bytes() const { return data_.count() * 4; }
  void operator()() const;

 private:
  ThreadPool& pool_;
  Tensor data_;
};

// Returns the operations (a multiply-add counts as two) of all threads together; the caller measures the
// time. `peak` is peak_f32 or peak_int8 of the table.
double run_peak(ThreadPool& pool, double (*peak)(int64_t loops));

// The best of a few rounds; takes about half a second.
MachineLimits measure_limits(ThreadPool& pool);

}  // namespace makar::kernels
