// Statistics of the inputs of a model's matrices on sample text: the importance of each column of a matrix,
// and the correlation of columns.
#pragma once
#include <vector>

#include "kernels/device.h"
#include "models/load.h"
#include "quant/calibration.h"

namespace makar {

struct CalibrateOptions {
  int64_t window = 512;  // tokens per forward pass
  bool gram = false;     // also collect x^T x, [columns, columns], for error-minimising rounding (GPTQ)
};

// Results are keyed by the GGUF names of the tensors.
Result<Calibration> calibrate(const LoadedModel& loaded, const std::vector<int64_t>& ids, Device& device,
                              const CalibrateOptions& options = {});

// Statistics of the `selected` parameters (empty: all), keyed by their names; for models of any family. The
// importance has no lower bound, while calibrate() adds a small one.
Result<Calibration> calibrate_parameters(const Model& model, const std::vector<int64_t>& ids, Device& device,
                                         const CalibrateOptions& options,
                                         const std::vector<Parameter*>& selected);

}  // namespace makar
