#include "train/task.h"

namespace makar {

Result<MicroBatch> Task::validation_batch(uint64_t) {
  return error_of(Error::Kind::kUnsupported, "validation", "this task has no validation data");
}

Status Task::restore(const TaskState& state) {
  if (state.empty()) return Done{};
  return error_at("checkpoint", "holds state of another kind of task; use another output_dir");
}

double squared_lengths(const Batch& batch) {
  double sum = 0;
  for (const Sequence& s : batch.sequences)
    sum += static_cast<double>(s.length) * static_cast<double>(s.length);
  return sum;
}

}  // namespace makar
