// Shared by kernels, mostly matrix products: scratch buffers, division into tasks, the final bias.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/scratch.h"

namespace makar::kernels {

constexpr int64_t kTasksPerThread = 6;

// Number of tasks that read `bytes` of weights once, in order: small tasks, so that all threads finish
// together.
inline int64_t stream_tasks(const ThreadPool& pool, int64_t bytes) {
  constexpr int64_t kTaskBytes = int64_t{64} << 10;
  const int64_t threads = pool.threads();
  return threads == 1 ? 1 : threads * std::max<int64_t>(1, bytes / threads / kTaskBytes);
}

// Adds the bias, if any, to rows [i0, i1) and columns [j0, j1) of an output.
inline void add_bias(const GemmOutput& out, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  if (!out.bias) return;
  for (int64_t i = i0; i < i1; ++i) {
    float* c = out.c + i * out.ldc;
    for (int64_t j = j0; j < j1; ++j) c[j] += out.bias[j];
  }
}

}  // namespace makar::kernels
