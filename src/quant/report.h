// How far a model is from its original on a text.
#pragma once
#include <vector>

#include "base/thread_pool.h"
#include "models/model.h"

namespace makar {

struct Divergence {
  int64_t tokens = 0;  // that were predicted
  double perplexity_before = 0, perplexity_after = 0;
  double kl = 0;    // mean of KL(original || other), in nats
  double top1 = 0;  // share of places where both think the same token most probable
};

// Next-token predictions in windows of `window` tokens, each without what came before it.
Result<Divergence> compare_models(const Model& original, const Model& other, const std::vector<int64_t>& ids,
                                  int64_t window, ThreadPool& pool);

}  // namespace makar
