// The recurrent parts of state space and convolution layers, on ragged batches. With a cache, states continue
// from its pages and are written back to them (kernels::PagedState); a tape needs a batch without a cache.
#pragma once
#include "ops/attention.h"

namespace makar::ops {

// x [tokens, channels], w [channels, taps], b [channels] or absent: a causal convolution per channel.
// state_offset: bytes from the start of a page to the layer's state; used if the batch has pages.
Tensor short_conv(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b,
                  const AttentionBatch& batch, int64_t state_offset);

struct ScanInputs {
  Tensor x;      // [tokens, heads * dim]
  Tensor dt;     // [tokens, heads], positive
  Tensor a_log;  // [heads, states], or [heads]
  Tensor rates;  // scan_rates(a_log); computed if undefined
  Tensor b, c;   // [tokens, groups * states]
  Tensor d;      // [heads]
};
// The recurrence of kernels::SelectiveScan -> like x.
Tensor selective_scan(Context& ctx, const ScanInputs& in, int64_t groups, const AttentionBatch& batch,
                      int64_t state_offset);

// -e^(a_log). Records no gradient: selective_scan computes the gradient of a_log itself.
Tensor scan_rates(Context& ctx, const Tensor& a_log);

// log(1 + e^x)
Tensor softplus(Context& ctx, const Tensor& x);

}  // namespace makar::ops
