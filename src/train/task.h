// What the loop trains: micro-batches by number, each with its loss. A task is a pure function of (seed,
// index): no position is kept anywhere, so a run resumes by its step number alone.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "models/load.h"
#include "nn/batch.h"

namespace makar {

struct MicroBatch {
  double weight = 0;   // how many targets its mean loss is over; micro-batches of a step are weighted by it
  int64_t tokens = 0;  // rows that go through the model, for the speed
  double pairs = 0;    // sum over sequences of length^2, for the work of attention
  std::function<Result<Tensor>(ForwardContext&)> loss;  // mean over the targets
};

// Figures of a validation: "loss" is always there.
using Metrics = std::map<std::string, double>;

class Task {
 public:
  virtual ~Task() = default;
  // The micro-batch at `index`, counted from the start of the run.
  virtual Result<MicroBatch> train_batch(uint64_t index) = 0;
  virtual uint64_t batches_per_epoch() const = 0;
  // Micro-batches of the validation part, in a fixed order; 0: there is none.
  virtual uint64_t validation_batches() const { return 0; }
  virtual Result<MicroBatch> validation_batch(uint64_t index);
  // Other figures (accuracy, F1), and which of all is watched for early stopping; a leading '-' means less is
  // better.
  virtual Result<Metrics> metrics(ThreadPool&) { return Metrics{}; }
  virtual std::string watched() const { return "-loss"; }
  // A look at what the model does now, for the log; empty: none.
  virtual Result<std::string> sample(ThreadPool&, int64_t) { return std::string(); }
  // What the loss is over, for people: "perplexity" makes sense for tokens only.
  virtual bool tokens_are_targets() const { return true; }
};

// sum of length^2 over the sequences of a batch
double squared_lengths(const Batch& batch);

}  // namespace makar
