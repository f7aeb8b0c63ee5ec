// Checkpoints of a run: everything to go on from to the bit. A checkpoint is written to a folder of another
// name, synced, renamed, and marked good last, by complete.json with the checksums of its files. What has no
// such marker was never finished and is not looked at.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"
#include "formats/safetensors_writer.h"
#include "models/model.h"
#include "optim/optimizer.h"

namespace makar {

// What a run holds beside parameters and moments; a pure function of the settings does the rest.
struct RunState {
  int64_t step = 0;       // steps done
  int64_t skipped = 0;    // steps' worth of data passed over after roll-backs
  int64_t bad_steps = 0;  // steps left out because something was not finite, in all
  double best = 0;        // of the watched figure
  int64_t since_best = 0, validations = 0;
  Json settings;  // that the run was started with
};

// The moving average of the weights, by parameter; empty without one.
using Averages = std::map<std::string, Tensor>;

// What a checkpoint holds, under the names of its file.
struct Snapshot {
  RunState state;
  std::vector<NamedTensor> tensors;
};
// The state as it is now. With `copied` the tensors are copies, which later steps do not touch; else they are
// the run's own.
Snapshot take_snapshot(const RunState& state, const Model& model, const Optimizer& optimizer,
                       const Averages& averages, bool copied);
// Writes it under `run` and removes all but the newest `keep`.
Status save_checkpoint(const std::string& run, const Snapshot& snapshot, int64_t keep);

// Folders of good checkpoints, the newest first.
std::vector<std::string> checkpoints(const std::string& run);

// Reads the newest good checkpoint whose checksums hold; nullopt when there is none. `told` gets a line for
// each that had to be passed over.
Result<std::optional<RunState>> load_checkpoint(const std::string& run, Model& model, Optimizer& optimizer,
                                                Averages& averages, std::vector<std::string>& told);

}  // namespace makar
