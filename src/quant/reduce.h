// A smaller model from some of the layers, attention heads and feed-forward channels of another. Its config
// has the new sizes: it is an ordinary dense model that other programs can load.
#pragma once
#include <vector>

#include "models/load.h"

namespace makar {

// The parts that are kept, in increasing order. Every layer keeps the same number of heads and channels,
// because a config has one number for all layers.
struct Reduction {
  std::vector<int64_t> layers;
  // Per kept layer, empty in a layer without attention or feed-forward; no lists: all are kept. A group is a
  // key/value head with its queries.
  std::vector<std::vector<int64_t>> groups, channels;
};

// `count` of `layers`, evenly spread, including the first and the last.
std::vector<int64_t> spread_layers(int64_t layers, int64_t count);

// The weights of `from` are f32 on the host (LoadOptions::trainable). `place` names the model in errors.
// Supports models with one stack; fails if the family's config cannot express the result, such as the windows
// and positions of the layers that remain.
Result<LoadedModel> reduce_model(const LoadedModel& from, const Reduction& reduction,
                                 const std::string& place);

}  // namespace makar
