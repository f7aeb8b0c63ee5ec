// How a model tells positions apart: a value for every pair of positions, as `makar inspect --positions`
// draws it.
#pragma once
#include <string>
#include <vector>

#include "models/load.h"

namespace makar {

struct PositionMap {
  std::string kind;               // "learned", "sinusoidal", "rotary", "alibi", "t5"
  int64_t size = 0;               // positions
  bool causal = false;            // only pairs with key <= query have a value
  std::vector<double> values;     // [size, size]: dot products of positions, or the bias added to a score
  std::vector<double> distances;  // [size, size]: lengths of the differences; empty for a bias
  double at(int64_t query, int64_t key) const { return values[static_cast<size_t>(query * size + key)]; }
  // The largest difference between two pairs at the same distance: 0 if the value depends on the distance
  // alone.
  double spread() const;
};

// One map for each encoding of a stack: a table of positions (learned, sinusoidal), rotations of queries and
// keys (dot products of two equal vectors, rotated), a bias by distance (of head `head`). Fewer than `size`
// positions if a table has fewer.
std::vector<PositionMap> position_maps(Context& ctx, const Model& model, const StackSpec& stack, int64_t size,
                                       int64_t head);

}  // namespace makar
