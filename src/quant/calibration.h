// What calibration knows about the matrices of a model, by GGUF's names of the tensors.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace makar {

struct Calibration {
  std::map<std::string, std::vector<float>> importance;  // of each column: the mean of x^2
  std::map<std::string, Tensor> together;  // x^T x / tokens, [columns, columns]; only where asked for
  int64_t tokens = 0;
};

}  // namespace makar
