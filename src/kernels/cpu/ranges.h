// How CPU kernels divide elementwise and row work among threads. The division never changes bits: each
// element or row is computed independently.
#pragma once
#include <algorithm>

#include "base/thread_pool.h"

namespace makar::kernels {

constexpr int64_t kGrain = 8192;  // with fewer elements, a second thread costs more than it saves

template <class F>
void each_range(ThreadPool& pool, int64_t n, F&& body) {
  if (n <= kGrain) return body(int64_t{0}, n);
  pool.for_ranges(n, kGrain, body);
}
// Splits rows of `cols` elements into ranges.
template <class F>
void each_rows(ThreadPool& pool, int64_t rows, int64_t cols, F&& body) {
  if (rows * cols <= kGrain) return body(int64_t{0}, rows);
  pool.for_ranges(rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(cols, 1)), body);
}

}  // namespace makar::kernels
