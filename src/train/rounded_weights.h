// Quantization-aware training: the forward and the backward pass see weights as they will be stored, rounded
// to a block type; the update changes the exact weights (the straight-through estimator, Bengio et al., 2013;
// Jacob et al., 2018).
#pragma once
#include <functional>

#include "train/trained_models.h"

namespace makar {

// The value that a parameter has after it is stored and loaded; undefined: it does not change.
using RoundWeight = std::function<Tensor(const Parameter&)>;

// While it exists, the trained parameters of the main model hold rounded values. Does nothing if `round` is
// null.
class RoundedWeights {
 public:
  RoundedWeights(const TrainedModels& models, const RoundWeight& round);
  ~RoundedWeights();
  RoundedWeights(const RoundedWeights&) = delete;
  RoundedWeights& operator=(const RoundedWeights&) = delete;

 private:
  std::vector<std::pair<Parameter*, Tensor>> exact_;
};

}  // namespace makar
