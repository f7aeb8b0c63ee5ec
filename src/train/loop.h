// The training loop: steps, validation, samples, checkpoints, resume, rollback. It reports through LoopEvents
// and does not print.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "train/checkpoint.h"
#include "train/recorded_steps.h"
#include "train/rounded_weights.h"
#include "train/settings.h"
#include "train/task.h"

namespace makar {

struct StepInfo {
  int64_t step = 0, total = 0;  // from 1 to total
  double loss = 0, norm = 0, lr = 0;
  double seconds = 0;
  double prepare_seconds = 0;  // part of `seconds`: Task::prepare_step(), rollouts with their rewards
  int64_t tokens = 0;
  double flops = 0;  // forward and backward
  double eta = 0;    // seconds
  bool applied = true;
  bool tokens_are_targets = true;
  bool recorded = false;  // forward and backward were recorded before, or in this step
  Metrics metrics;        // of the task: Task::step_metrics()
};

struct LoopEvents {
  std::function<void(const StepInfo&)> step;
  std::function<void(int64_t step, const Metrics&)> validation;
  std::function<void(int64_t step, const std::string&)> sample;
  std::function<void(const std::string&)> say;  // messages: resumed, skipped, rolled back, saved
};

struct LoopResult {
  int64_t steps = 0;
  bool interrupted = false, stopped_early = false;
  bool finished_before = false;  // the folder already holds this run, and it is finished; no step was run
  int64_t bad_steps = 0;
  double last_loss = 0;
  Metrics validation;  // of the last validation
  double seconds = 0;  // duration of this call
  int64_t tokens = 0;
  Json settings;  // settings with the identity, for run.json
};

struct Loop {
  TrainedModels models;
  Task& task;
  const LoopSettings& settings;
  Device& device;
  LoopEvents events;
  const std::atomic<bool>* stop = nullptr;  // set on Ctrl-C
  Json identity;  // hashes of data, tokenizer and model; a run resumes only with the same settings and
                  // identity
  RoundWeight round = nullptr;  // quantization-aware training
  // Whether steps are recorded; unset: where that is faster (Device::records_work).
  std::optional<bool> record = std::nullopt;
};

// Trains to the end or until stopped; resumes from the newest checkpoint in settings.output_dir if there is
// one. A finished run in that folder is never replaced without settings.overwrite. With --ema the models hold
// the averaged weights at the end.
Result<LoopResult> run_loop(const Loop& loop);

// Prepares the data of `step` and runs forward and backward for its micro-batches; leaves the
// gradients in the parameters. `recorded`: of the steps before; null: the step is not recorded.
Result<StepInfo> step_gradients(const Loop& loop, uint64_t step, RecordedSteps* recorded = nullptr);

// Forward and backward of the micro-batches of a step, of which the first has the index `first`.
struct StepLosses {
  std::vector<Tensor> losses;  // by micro-batch, on the device; undefined without targets
  bool random = false;         // whether random numbers were drawn on the device
};
Result<StepLosses> backward_step(const Loop& loop, std::span<const MicroBatch> batches, uint64_t first,
                                 std::span<UploadedIndices> uploaded = {});

// The mean validation loss and the task's own metrics.
Result<Metrics> validate(Task& task, Device& device, DType activations = DType::kF32);

}  // namespace makar
