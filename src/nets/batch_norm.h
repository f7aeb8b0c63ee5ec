// Batch norm over the rows of a matrix, with its running statistics as parameters.
#pragma once
#include "nn/parameter.h"
#include "ops/norm.h"

namespace makar {

class BatchNorm {
 public:
  BatchNorm() = default;
  BatchNorm(ParameterSet& set, const std::string& name, int64_t width)
      : scale_(set.add(name + ".weight", {width})),
        shift_(set.add(name + ".bias", {width})),
        mean_(set.add(name + ".running_mean", {width})),
        variance_(set.add(name + ".running_var", {width})) {
    mean_->buffer = variance_->buffer = true;
  }
  bool defined() const { return scale_ != nullptr; }
  Tensor operator()(Context& ctx, const Tensor& x) const {
    ops::BatchNormState state{mean_->value, variance_->value};
    return ops::batch_norm(ctx, x, scale_->value, shift_->value, 1e-5f, state);
  }

 private:
  Parameter *scale_ = nullptr, *shift_ = nullptr, *mean_ = nullptr, *variance_ = nullptr;
};

}  // namespace makar
