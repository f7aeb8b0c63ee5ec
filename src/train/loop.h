// The one training loop: steps, validation, samples, checkpoints, resuming, roll-back. What it does is told
// through LoopEvents; it prints nothing.
#pragma once
#include <atomic>
#include <functional>
#include <string>

#include "train/checkpoint.h"
#include "train/settings.h"
#include "train/task.h"

namespace makar {

struct StepInfo {
  int64_t step = 0, total = 0;  // this one (from 1), of how many
  double loss = 0, norm = 0, lr = 0;
  double seconds = 0;
  int64_t tokens = 0;
  double flops = 0;  // of forward and backward
  double eta = 0;    // seconds
  bool applied = true;
  bool tokens_are_targets = true;
};

struct LoopEvents {
  std::function<void(const StepInfo&)> step;
  std::function<void(int64_t step, const Metrics&)> validation;
  std::function<void(int64_t step, const std::string&)> sample;
  std::function<void(const std::string&)> say;  // resumed, skipped, rolled back, saved
};

struct LoopResult {
  int64_t steps = 0;
  bool interrupted = false, stopped_early = false;
  int64_t bad_steps = 0;
  double last_loss = 0;
  Metrics validation;  // the last
  double seconds = 0;  // of this call
  int64_t tokens = 0;
};

struct Loop {
  Model& model;
  Task& task;
  const LoopSettings& settings;
  ThreadPool& pool;
  LoopEvents events;
  const std::atomic<bool>* stop = nullptr;  // set by Ctrl-C
  Json identity;  // beside the settings: data, tokenizer and model, by hash; a run goes on only with the same
};

// Trains to the end or until stopped, from the newest checkpoint of settings.output_dir where there is one.
// At the end the averaged weights, where asked for, stand in the model.
Result<LoopResult> run_loop(const Loop& loop);

// Forward and backward of the micro-batches of step `number`: the gradients stand in the parameters.
Result<StepInfo> step_gradients(const Loop& loop, uint64_t number);

// The mean loss over the validation part and the task's own figures.
Result<Metrics> validate(Model& model, Task& task, ThreadPool& pool);

// Floating point operations of a forward and backward pass, nearly: matrix products and attention.
double training_flops(const Model& model, const MicroBatch& batch);

}  // namespace makar
