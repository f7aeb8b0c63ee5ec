// The training loop's data source: micro-batches by index, each with its loss. A task is a pure function of
// (seed, index) without a stored position, so the step number is enough to resume a run.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "models/load.h"
#include "nn/batch.h"

namespace makar {

struct MicroBatch {
  double weight = 0;   // number of targets; weights the mean losses of a step's micro-batches
  int64_t tokens = 0;  // rows processed by the model, for throughput
  double pairs = 0;    // sum of squared sequence lengths, for the FLOPs of attention
  std::function<Result<Tensor>(ForwardContext&)> loss;  // mean over the targets
};

// Validation metrics; "loss" is always present.
using Metrics = std::map<std::string, double>;

class Task {
 public:
  virtual ~Task() = default;
  // The micro-batch at `index`, counted from the start of the run.
  virtual Result<MicroBatch> train_batch(uint64_t index) = 0;
  virtual uint64_t batches_per_epoch() const = 0;
  // Number of validation micro-batches, in a fixed order; 0: no validation.
  virtual uint64_t validation_batches() const { return 0; }
  virtual Result<MicroBatch> validation_batch(uint64_t index);
  // Other metrics (accuracy, F1), and the metric watched for early stopping; a leading '-' means lower is
  // better.
  virtual Result<Metrics> metrics(Device&) { return Metrics{}; }
  virtual std::string watched() const { return "-loss"; }
  // A sample of the model's current output, for the log; empty: none.
  virtual Result<std::string> sample(Device&, int64_t) { return std::string(); }
  // Whether the loss is per token, so that perplexity can be reported.
  virtual bool tokens_are_targets() const { return true; }
};

// The sum of squared sequence lengths of a batch.
double squared_lengths(const Batch& batch);

}  // namespace makar
