// What the training loop trains: micro-batches by index, each with its loss. A micro-batch is a pure function
// of (seed, index), so the step number is enough to resume a run. A task that makes data with the current
// weights (rollouts) or adapts a coefficient also has state, which changes only in prepare_step() and
// is stored in checkpoints, so that such a run resumes exactly too.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "models/load.h"

namespace makar {

// The inputs of a language model and one target per row (ops::kIgnore: none).
struct LanguageBatch {
  Inputs inputs;
  std::vector<int64_t> targets;
};

struct MicroBatch {
  double weight = 0;           // number of targets; weights the mean losses of a step's micro-batches
  int64_t tokens = 0;          // rows processed by the model, for throughput
  double squared_lengths = 0;  // sum of squared sequence lengths, for the FLOPs of attention
  std::function<Result<Tensor>(ForwardContext&)> loss;  // mean over the targets
  // Set by objectives of language models: distillation computes another loss on the same batch.
  std::shared_ptr<const LanguageBatch> language = nullptr;
};

// Added to the index of a validation batch that draws random numbers, so that they differ from training's.
constexpr uint64_t kValidationDraw = uint64_t{1} << 62;

// Metrics of a step or of a validation, by name.
using Metrics = std::map<std::string, double>;

// The part of a checkpoint that belongs to the task. Numbers and tensors are restored bit for bit.
struct TaskState {
  Json values;  // null if there is none
  std::map<std::string, Tensor> tensors;
  bool empty() const { return values.is_null() && tensors.empty(); }
};

class Task {
 public:
  virtual ~Task() = default;
  // Called before the micro-batches of each step are requested. `step` counts steps of data: it is the loop's
  // step plus the steps that rollbacks skipped. Data made here is a pure function of (seed, step, weights,
  // state).
  virtual Status prepare_step(uint64_t /*step*/, Device&) { return Done{}; }
  // The micro-batch at `index`, counted from the start of the run.
  virtual Result<MicroBatch> train_batch(uint64_t index) = 0;
  virtual uint64_t batches_per_epoch() const = 0;
  // Numbers about the last step besides its loss (reward, KL divergence), for the log.
  virtual Metrics step_metrics() const { return {}; }

  // State for a checkpoint, and its restoration. restore() receives an empty state if the
  // checkpoint has none, and validates the state, which comes from a file.
  virtual TaskState state() const { return {}; }
  virtual Status restore(const TaskState& state);

  // Number of validation micro-batches, in a fixed order; 0: no validation.
  virtual uint64_t validation_batches() const { return 0; }
  virtual Result<MicroBatch> validation_batch(uint64_t index);
  // Other metrics (accuracy, F1), and the metric watched for early stopping; a leading '-' means lower is
  // better.
  virtual Result<Metrics> metrics(Device&) { return Metrics{}; }
  virtual std::string watched() const { return "-loss"; }
  // A sample of the model's current output, for the log; empty: none.
  virtual Result<std::string> sample(Device&, int64_t) { return std::string(); }
  // Whether train_batch() returns next-token losses of MicroBatch::language, whose computation changes
  // nothing in the task. Steps of such tasks can be recorded (recorded_steps.h).
  virtual bool trains_next_tokens() const { return false; }
  // Whether the loss is per token, so that perplexity can be reported.
  virtual bool tokens_are_targets() const { return true; }
};

// The sum of squared sequence lengths of a batch.
double squared_lengths(const Batch& batch);

}  // namespace makar
