// The learned mix of the layers of a stack (Peters et al., 2018): gamma * sum_j softmax(s)_j h_j.
#pragma once
#include <string>
#include <vector>

#include "nn/parameter.h"

namespace makar {

class ScalarMix {
 public:
  ScalarMix() = default;
  // Declares NAME.weight (s, one value per layer) and NAME.scale (gamma) if it is learned. Otherwise s is 0
  // and gamma 1: the mean of the layers.
  ScalarMix(ParameterSet& set, const std::string& name, int64_t layers, bool learned);

  bool defined() const { return layers_ > 0; }
  // states: [N, width] each -> [N, width].
  Tensor operator()(Context& ctx, const std::vector<Tensor>& states) const;

 private:
  int64_t layers_ = 0;
  Parameter *weight_ = nullptr, *scale_ = nullptr;
};

}  // namespace makar
