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

// Visits one of `pieces` pieces of a thread's share of the panels of several matrices: of every matrix the
// part that place_parts() has put on the thread's NUMA node. Calls body(matrix, begin, end).
template <class Panels, class Body>
void each_share(size_t matrices, const Panels& panels, int64_t thread, int64_t threads, int64_t piece,
                int64_t pieces, const Body& body) {
  const auto first = [&](size_t m, int64_t t) { return panels(m) * t / threads; };
  int64_t total = 0;
  for (size_t m = 0; m < matrices; ++m) total += first(m, thread + 1) - first(m, thread);
  int64_t begin = total * piece / pieces, end = total * (piece + 1) / pieces;
  for (size_t m = 0; m < matrices; ++m) {
    const int64_t from = first(m, thread), count = first(m, thread + 1) - from;
    if (begin < count && end > 0) body(m, from + std::max<int64_t>(begin, 0), from + std::min(end, count));
    begin -= count, end -= count;
  }
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
