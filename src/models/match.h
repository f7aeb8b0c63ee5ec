// Matches the parameters of a config with the tensors of the weight files, by names and shapes only: no
// weights are read.
#pragma once
#include <string>
#include <vector>

#include "formats/weights.h"
#include "models/load.h"

namespace makar {

// A tensor of the files and the parameters it provides.
struct MatchedTensor {
  NamedSlice slice;
  std::string name;  // as in the files
};

// Checks that every tensor the model needs is present with a float type and the right shape, and that the
// files have no others. Returns the first violation as error.
Result<std::vector<MatchedTensor>> match_weights(const LoadedModel& loaded, const WeightFiles& files);

// Checks, before a model is built, that the config does not have more layers than the files have tensors.
Status check_depth(const ModelSpec& spec, const Config& config, const WeightFiles& files);

}  // namespace makar
