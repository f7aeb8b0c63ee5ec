// What the inputs of a model's matrices look like on sample text: how much each column of a matrix matters,
// and how columns go together.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "models/load.h"
#include "quant/gguf_model.h"

namespace makar {

struct CalibrateOptions {
  int64_t window = 512;   // tokens of a forward
  bool together = false;  // also gather x^T x, [columns, columns], for error-minimising rounding
};

struct Calibration {
  Importance importance;                          // mean of x^2 for each column
  std::map<std::string, std::vector<double>> xx;  // mean of x x^T, [columns * columns]
  int64_t tokens = 0;
};

// By GGUF's names of the tensors.
Result<Calibration> calibrate(const LoadedModel& loaded, const std::vector<int64_t>& ids, ThreadPool& pool,
                              const CalibrateOptions& options = {});

}  // namespace makar
