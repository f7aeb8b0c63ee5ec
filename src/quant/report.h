// The difference between a model and its original on a text.
#pragma once
#include <vector>

#include "base/thread_pool.h"
#include "models/model.h"

namespace makar {

struct Divergence {
  int64_t tokens = 0;  // predicted tokens
  double perplexity_before = 0, perplexity_after = 0;
  double kl = 0;    // mean of KL(original || other), in nats
  double top1 = 0;  // share of positions where both models have the same most probable token
};

// Whether models of this kind can be compared: causal language models of one stack.
Status check_comparable(const ModelSpec& spec);
// Compares next-token predictions in independent windows of `window` tokens.
Result<Divergence> compare_models(const Model& original, const Model& other, const std::vector<int64_t>& ids,
                                  int64_t window, Device& device, ThreadPool& pool);

}  // namespace makar
