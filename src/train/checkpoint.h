// Checkpoints of a run: all state that an exact resume needs. A checkpoint is written to a temporary folder,
// with complete.json (the checksums of its files) last, synced, and renamed. A folder without complete.json
// is not a checkpoint. Complete checkpoints are never written to; older ones are removed after a newer one is
// durable.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"
#include "formats/safetensors_writer.h"
#include "train/task.h"
#include "train/trained_models.h"

namespace makar {

// The state of a run other than parameters and moments; everything else is a pure function of the settings
// and of the task's own state.
struct RunState {
  int64_t step = 0;         // steps done
  int64_t skipped = 0;      // steps of data skipped by rollbacks
  int64_t bad_steps = 0;    // steps not applied because the loss or a gradient was not finite
  double best = 0;          // best value of the watched metric
  int64_t since_best = 0;   // validations since the best one
  int64_t validations = 0;  // validations so far
  Json settings;            // of the run, with its identity
  TaskState task;           // as restored, or as of the snapshot
};

// The moving average of the weights, by parameter name (each_parameter()); empty without --ema.
using Averages = std::map<std::string, Tensor>;

// The content of a checkpoint; tensors under the names of state.safetensors.
struct Snapshot {
  RunState state;
  std::vector<NamedTensor> tensors;
};
// The current state. With `copied` the tensors are copies that later steps do not change; otherwise they
// share the run's memory.
Snapshot take_snapshot(const RunState& state, const TrainedModels& models, const Optimizers& optimizers,
                       const Averages& averages, bool copied);
// Writes the snapshot durably as `run`/checkpoint-STEP, then removes all but the newest `keep`. Does nothing
// if the step already has a complete checkpoint.
Status save_checkpoint(const std::string& run, const Snapshot& snapshot, int64_t keep);
void remove_checkpoints(const std::string& run);
// Removes folders left by an interrupted save or removal.
void remove_incomplete_checkpoints(const std::string& run);

// Folders of complete checkpoints, the newest first.
std::vector<std::string> checkpoints(const std::string& run);

// Restores the newest checkpoint with valid checksums; nullopt if there is none. Adds one line to `skipped`
// per damaged checkpoint.
Result<std::optional<RunState>> load_checkpoint(const std::string& run, const TrainedModels& models,
                                                Optimizers& optimizers, Averages& averages,
                                                std::vector<std::string>& skipped);

}  // namespace makar
