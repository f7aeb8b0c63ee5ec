// DeBERTa V2's convolution in parallel with the first layer.
#pragma once
#include <string>

#include "nn/batch.h"
#include "nn/norm.h"

namespace makar {

class Convolution {
 public:
  Convolution() = default;
  Convolution(ParameterSet& set, const std::string& name, int64_t width, const ConvolutionSpec& spec,
              const NormSpec& norm);
  bool defined() const { return weight_ != nullptr; }
  // norm(y + activation(convolution of x)): x [N, width] is the input of the first layer, y its output.
  Tensor operator()(Context& ctx, const Tensor& x, const Tensor& y, const Batch& batch, float dropout) const;

 private:
  ConvolutionSpec spec_;
  Parameter *weight_ = nullptr, *bias_ = nullptr;  // [width, width, taps], [width]
  Norm norm_;
};

}  // namespace makar
