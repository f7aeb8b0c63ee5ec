// What the inputs of a model's matrices look like on sample text: how much each column of a matrix matters,
// and how columns go together.
#pragma once
#include <vector>

#include "base/thread_pool.h"
#include "models/load.h"
#include "quant/calibration.h"

namespace makar {

struct CalibrateOptions {
  int64_t window = 512;   // tokens of a forward
  bool together = false;  // also gather x^T x, [columns, columns], for error-minimising rounding
};

// By GGUF's names of the tensors.
Result<Calibration> calibrate(const LoadedModel& loaded, const std::vector<int64_t>& ids, ThreadPool& pool,
                              const CalibrateOptions& options = {});

}  // namespace makar
