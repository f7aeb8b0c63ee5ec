// XLNet's objective (Yang et al., 2019): a sixth of the tokens, in spans, is predicted one after the other in
// a random order. Each target has a query row of its own (the second stream), which starts as a learned
// vector at the target's position and attends to the context and to earlier targets.
#pragma once
#include "train/denoise.h"

namespace makar {

// For each text its rows, then one row per target.
struct Permuted {
  Batch batch;
  std::vector<int64_t> rows, targets;  // the query rows and their targets
};
// The positions of `count` targets in a text of `length` tokens, in the order of prediction: spans of 1 to 5.
std::vector<int64_t> permuted_targets(int64_t length, int64_t count, Draws& draws);
// Appends a text with its targets at `positions`, in order.
void add_permuted(Permuted& out, const std::vector<int64_t>& ids, const std::vector<int64_t>& positions);
// The mean loss of the targets.
MicroBatch permuted_batch(Model& model, Permuted examples, float smoothing);

}  // namespace makar
