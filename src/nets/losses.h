// Losses of classes and numbers, from a network's outputs.
#pragma once
#include <string>
#include <vector>

#include "ops/context.h"

namespace makar {

struct LossKind {
  const char* name;
  bool classes;  // true: a loss of classes; false: of numbers
  const char* help;
};
const std::vector<LossKind>& loss_kinds();
// "auto": cross-entropy for classes, mse for numbers.
Result<std::string> loss_named(const std::string& name, bool classes, const std::string& place);

// Mean over the rows. Classes: x [rows, classes]. Numbers: x [rows, 1].
Tensor class_loss(Context& ctx, const std::string& loss, const Tensor& x,
                  const std::vector<int64_t>& targets);
Tensor number_loss(Context& ctx, const std::string& loss, const Tensor& x, const std::vector<float>& targets);

}  // namespace makar
