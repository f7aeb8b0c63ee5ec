// Arguments of the recurrent layers: short convolutions and selective scans.
#pragma once
#include "kernels/args/attention.h"

namespace makar::kernels {

// Where a layer keeps the state of its sequences in cache pages: each page has the state after its last
// computed token. Without a cache, pages is null and states start at zero.
struct PagedState {
  std::byte* const* pages;  // page table, as in CacheLayer
  int64_t offset;           // bytes from the start of a page
};
// A causal depthwise convolution over each sequence: y[t] = bias + sum_k w[k] x[t - taps + 1 + k].
struct ShortConv {
  const SequenceRows* sequences;
  int64_t count;
  const float *x, *w, *bias;  // [rows, channels], [channels, taps], [channels] or null
  float* y;
  int64_t channels, taps;
  PagedState state;  // [taps - 1, channels]: the inputs before the next token
};
struct ShortConvBackward {
  const SequenceRows* sequences;
  int64_t count;
  const float *x, *w, *dy;
  float *dx, *dw, *dbias;  // overwritten; dbias may be null
  int64_t channels, taps;
};
// The selective scan of Mamba (Gu and Dao, 2023), for each of the `dim` channels of a head: h = exp(dt a) h +
// dt b x, y = c h + d x. dt is positive, a negative. Heads share b and c [rows, groups * states] in groups.
struct SelectiveScan {
  const SequenceRows* sequences;
  int64_t count;
  // x [rows, heads * dim], dt [rows, heads], a [heads, a_columns], b and c [rows, groups * states], d [heads]
  const float *x, *dt, *a, *b, *c, *d;
  float* y;
  int64_t heads, dim, groups, states;
  int64_t a_columns;  // `states`, or 1: all states of a head share their a
  PagedState state;   // [heads * dim, states]
};
struct SelectiveScanBackward {
  SelectiveScan forward;  // without y and state
  const float* dy;
  float *dx, *ddt, *db, *dc;  // overwritten
  // [count, heads, a_columns], [count, heads]: one partial sum per sequence, overwritten; da_log = a da, for
  // a = -exp(a_log)
  float *da_log, *dd;
};

}  // namespace makar::kernels
