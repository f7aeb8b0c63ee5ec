// One training step: loss, gradients, clipping, update.
#pragma once
#include "models/model.h"
#include "optim/optimizer.h"

namespace makar {

struct StepResult {
  double loss = 0;
  double norm = 0;      // gradient norm before clipping
  bool applied = true;  // false: loss or gradient was not finite; the parameters are unchanged
};

struct StepOptions {
  double lr = 1e-3;
  double max_norm = 1.0;  // 0: no clipping
  bool checkpoint = false;
  uint64_t seed = 0, step = 0;      // for dropout
  DType activations = DType::kF32;  // bf16: mixed precision
};

// Next-token training on a ragged batch: targets holds one id per row, -100 to ignore the row.
StepResult train_step(Model& model, Optimizer& optimizer, Device& device, const Batch& batch,
                      const std::vector<int64_t>& targets, const StepOptions& options);

}  // namespace makar
