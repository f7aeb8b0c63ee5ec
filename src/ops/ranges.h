// How ops cut elementwise and row work for threads. Cuts never change bits here: each element or row stands
// alone.
#pragma once
#include <algorithm>

#include "ops/context.h"

namespace makar::ops {

constexpr int64_t kGrain = 8192;  // elements below which a second thread costs more than it gives

template <class F>
void each_range(Context& ctx, int64_t n, F&& body) {
  if (n <= kGrain) return body(int64_t{0}, n);
  ctx.pool.for_ranges(n, kGrain, body);
}
// Ranges of rows of `cols` elements each.
template <class F>
void each_rows(Context& ctx, int64_t rows, int64_t cols, F&& body) {
  if (rows * cols <= kGrain) return body(int64_t{0}, rows);
  ctx.pool.for_ranges(rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(cols, 1)), body);
}

}  // namespace makar::ops
