// One training step: loss, gradients, clipping, update.
#pragma once
#include "models/model.h"
#include "optim/optimizer.h"

namespace makar {

struct StepResult {
  double loss = 0;
  double norm = 0;      // of the gradients, before clipping
  bool applied = true;  // false: something was not finite and the parameters were left alone
};

struct StepOptions {
  double lr = 1e-3;
  double max_norm = 1.0;  // 0: no clipping
  bool checkpoint = false;
  uint64_t seed = 0, step = 0;  // of dropout
};

// Next-token training on a ragged batch: targets holds one id a row, -100 where nothing is predicted.
StepResult train_step(Model& model, Optimizer& optimizer, ThreadPool& pool, const Batch& batch,
                      const std::vector<int64_t>& targets, const StepOptions& options);

}  // namespace makar
