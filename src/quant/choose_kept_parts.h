// Structured pruning: which layers, attention heads and feed-forward channels of a model to keep.
#pragma once
#include "base/thread_pool.h"
#include "kernels/device.h"
#include "quant/reduce.h"

namespace makar {

struct StructuredPruningOptions {
  int64_t layers = 0, kv_heads = 0, ffn = 0;  // 0: all
  std::vector<int64_t> ids;                   // sample text; empty: by the weights alone
  int64_t window = 512;
};

// Keeps the channels and groups of heads that contribute most to the output on the sample text: |x_c|^2
// |w_c|^2, summed over their columns of the output matrix; without text, those with the largest sum of
// squared weights. Keeps the layers that change the direction of the residual stream most on the text (Men et
// al., 2024), and always the last one (of Mamba also the first); without text, evenly spread layers. Fails
// for parts that the model does not have.
Result<Reduction> choose_kept_parts(const LoadedModel& model, const StructuredPruningOptions& options,
                                    Device& device, const std::string& place);

}  // namespace makar
