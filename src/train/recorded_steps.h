// Training steps as recorded work (a CUDA graph): forward and backward of all micro-batches of a step are
// recorded when the two steps before had the same shape, and run again while the shape stays. Token ids and
// targets are in device memory, which is overwritten before each run. Each time that another shape ends a
// recording, the next one waits for twice as many steps of one shape, at most 16. Gradient norm, clipping and
// the optimizer follow unrecorded. Same bits as steps that are not recorded.
//
// A step can be recorded if the task is Task::trains_next_tokens() with one model that
// DecodeSteps::supports(), every token has a target, nothing draws random numbers or rounds weights, and the
// optimizer is adam or adamw (others need memory that the recording would hold). The shape is the lengths of
// all sequences and the tensors of all weights.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/task.h"

namespace makar {

struct Loop;
struct StepLosses;

class RecordedSteps {
 public:
  RecordedSteps();
  ~RecordedSteps();
  RecordedSteps(const RecordedSteps&) = delete;
  RecordedSteps& operator=(const RecordedSteps&) = delete;

  // backward_step() on these micro-batches, from a recording if there can be one. `loop` must outlive this
  // object.
  Result<StepLosses> backward(const Loop& loop, const std::vector<MicroBatch>& batches, uint64_t first);
  // Frees the memory of the recording, which nothing else can use. The next step of its shape records again.
  void release();
  // Whether the last step ran as recorded work.
  bool is_recorded() const { return work_ != nullptr; }

 private:
  struct Work;
  std::vector<int64_t> shape_;  // of the last step; empty: not recorded
  int64_t seen_ = 0;            // consecutive steps with that shape
  int64_t wait_ = 2;            // the number of them that run unrecorded first
  bool failed_ = false;
  std::unique_ptr<Work> work_;
};

}  // namespace makar
