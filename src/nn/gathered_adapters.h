// Adapters for rows that are not rows of the batch: the steps of a recurrent layer, the rows of one sequence,
// the rows of a source. All rows of a sequence have the same adapter.
#pragma once
#include <span>
#include <vector>

#include "nn/linear.h"
#include "ops/attention.h"

namespace makar {

// The adapter of each sequence of a batch; empty without adapters.
std::vector<int32_t> sequence_adapters(const Context& ctx, const ops::AttentionBatch& batch);
// The adapter of each source row; `lengths` has the rows of each sequence.
std::vector<int32_t> source_adapters(const Context& ctx, const ops::AttentionBatch& batch,
                                     const std::vector<int64_t>& lengths);

// Sets ctx.row_adapters for its lifetime.
class GatheredAdapters {
 public:
  GatheredAdapters(Context& ctx, std::vector<int32_t> adapters)
      : ctx_(ctx), previous_(ctx.row_adapters), adapters_(std::move(adapters)) {
    ctx_.row_adapters = adapters_;
  }
  ~GatheredAdapters() { ctx_.row_adapters = previous_; }
  GatheredAdapters(const GatheredAdapters&) = delete;
  GatheredAdapters& operator=(const GatheredAdapters&) = delete;

 private:
  Context& ctx_;
  std::span<const int32_t> previous_;
  std::vector<int32_t> adapters_;
};

// linear(x) in f32; all rows of x use the adapter ctx.row_adapters[0].
Tensor linear_of_sequence(Context& ctx, const Linear& linear, const Tensor& x);

}  // namespace makar
