// What a config asks for, joined with what the weight files hold, by names and shapes alone: no weight is
// read.
#pragma once
#include <string>
#include <vector>

#include "formats/weights.h"
#include "models/load.h"

namespace makar {

// A tensor of the files and the parameters that it fills.
struct MatchedTensor {
  NamedSlice slice;
  std::string name;  // as the files spell it
};

// Every tensor that the model needs is there with a float type and the right shape, and the files hold
// nothing else. The first thing that does not hold is the error.
Result<std::vector<MatchedTensor>> match_weights(const LoadedModel& loaded, const WeightFiles& files);

// Before a model is built: a config with more layers than the files have tensors cannot be theirs.
Status check_depth(const ModelSpec& spec, const Config& config, const WeightFiles& files);

}  // namespace makar
