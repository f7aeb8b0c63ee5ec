#include "train/task.h"

namespace makar {

Result<MicroBatch> Task::validation_batch(uint64_t) {
  return error_of(Error::Kind::kUnsupported, "validation", "this task has no validation part");
}

double squared_lengths(const Batch& batch) {
  double sum = 0;
  for (const Sequence& s : batch.sequences)
    sum += static_cast<double>(s.length) * static_cast<double>(s.length);
  return sum;
}

}  // namespace makar
