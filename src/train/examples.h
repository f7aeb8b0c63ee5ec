// A task over a list of examples: shuffled by (seed, epoch), a fixed number per batch. A derived task defines
// the example and its loss in one function.
#pragma once
#include <span>

#include "train/task.h"

namespace makar {

class ExampleTask : public Task {
 public:
  // `count` training and `held_out` validation examples; `seed` determines the order.
  ExampleTask(size_t count, size_t held_out, int64_t batch, uint64_t seed)
      : count_(count), held_out_(held_out), batch_(static_cast<size_t>(batch)), seed_(seed) {}
  Result<MicroBatch> train_batch(uint64_t index) final;
  uint64_t batches_per_epoch() const override { return (count_ + batch_ - 1) / batch_; }
  uint64_t validation_batches() const override { return (held_out_ + batch_ - 1) / batch_; }
  Result<MicroBatch> validation_batch(uint64_t index) final;

 protected:
  // The micro-batch of these examples. `draw` is its index for random choices (masks); validation uses
  // separate draws.
  virtual Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) = 0;
  size_t count_, held_out_, batch_;
  uint64_t seed_;
};

}  // namespace makar
