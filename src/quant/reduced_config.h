// The config of a reduced model: the new sizes, and the pattern of the layers that remain (windows, layers
// without positions, convolutions).
#pragma once
#include "quant/reduce.h"

namespace makar {

// The number of parts that every layer with such parts keeps; 0: all are kept.
int64_t kept_count(const std::vector<std::vector<int64_t>>& lists);

// A model without weights whose blocks are the kept ones. A config without a list of the layers' kinds gets
// one if it needs it; fails with the first difference if the config still gives other blocks.
Result<LoadedModel> reduced_model(const ModelSpec& spec, const Reduction& reduction,
                                  const std::string& place);

}  // namespace makar
