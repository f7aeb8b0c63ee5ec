#include "train/examples.h"

#include <algorithm>

#include "data/permutation.h"

namespace makar {

Result<MicroBatch> ExampleTask::train_batch(uint64_t index) {
  if (count_ == 0) return error_at("data", "there is no example to train on");
  std::vector<size_t> which;
  for (size_t i = 0; i < batch_; ++i) {
    const uint64_t at = index * batch_ + i;
    which.push_back(Permutation(count_, seed_, at / count_)(at % count_));
  }
  return make(which, false, index);
}

Result<MicroBatch> ExampleTask::validation_batch(uint64_t index) {
  std::vector<size_t> which;
  for (size_t i = index * batch_; i < std::min((index + 1) * batch_, held_out_); ++i) which.push_back(i);
  return make(which, true, kValidationDraw + index);
}

}  // namespace makar
