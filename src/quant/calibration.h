// Calibration data for the matrices of a model, keyed by the names of GGUF (calibrate()) or of the parameters
// (calibrate_parameters()).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace makar {

struct Calibration {
  std::map<std::string, std::vector<float>> importance;  // per column: the mean of x^2
  std::map<std::string, Tensor> gram;  // x^T x / tokens, [columns, columns]; only when requested
  int64_t tokens = 0;
};

}  // namespace makar
