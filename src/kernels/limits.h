// What this machine can do, measured: bytes a second from memory, one sequential stream a thread, and
// arithmetic with nothing else to do. A figure of speed is read beside these.
#pragma once
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

namespace makar::kernels {

// Reads the buffer once, a slice for each thread.
class MemoryStream {
 public:
  MemoryStream(ThreadPool& pool, int64_t bytes) : pool_(pool), data_(Tensor::zeros({bytes / 4})) {}
  int64_t bytes() const { return data_.count() * 4; }
  void operator()() const;

 private:
  ThreadPool& pool_;
  Tensor data_;
};

// Operations (a multiply-add is two) of all threads together, and their seconds are the caller's to take.
// `peak` is peak_f32 or peak_int8 of the table.
double run_peak(ThreadPool& pool, double (*peak)(int64_t loops));

struct MachineLimits {
  double bytes = 0, f32 = 0, int8 = 0;  // a second; int8 is 0 where it is not known
};
// The best of a few rounds, in about half a second.
MachineLimits measure_limits(ThreadPool& pool);

}  // namespace makar::kernels
