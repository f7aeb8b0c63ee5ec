// Structured pruning: which layers, attention heads and feed-forward channels of a model to keep.
#pragma once
#include "base/thread_pool.h"
#include "kernels/device.h"
#include "quant/reduce.h"

namespace makar {

struct PartsWanted {
  int64_t layers = 0, kv_heads = 0, ffn = 0;  // 0: all
  std::vector<int64_t> ids;                   // sample text; empty: by the weights alone
  int64_t window = 512;
};

// Channels and groups of heads by the output that they contribute on the sample text, |x_c|^2 |w_c|^2 summed
// over their columns of the output matrix; without text by the squares of all their weights. Layers by how
// much they change the direction of the residual stream on the text (Men et al., 2024), always with the last
// one; without text evenly spread.
Result<Reduction> choose_parts(const LoadedModel& model, const PartsWanted& wanted, Device& device,
                               const std::string& place);

}  // namespace makar
