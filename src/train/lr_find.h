// The learning rate range test (Smith, 2015): a short run with an increasing learning rate, and the rate at
// which the loss fell fastest. The model is not usable afterwards.
#pragma once
#include <vector>

#include "train/loop.h"

namespace makar {

struct RateSearch {
  int64_t steps = 100;
  double low = 1e-7, high = 1.0;  // learning rates of the first and last step
};

struct RateSearchResult {
  std::vector<double> rates, losses, smoothed;  // one per step, until the loss reached twice its first value
  double steepest = 0;                          // the suggested rate: where the smoothed loss falls fastest
  double lowest = 0;                            // the rate at which the smoothed loss is lowest
};

// Error if the loss did not fall at any rate.
Result<RateSearchResult> find_rate(const Loop& loop, const RateSearch& search);

// Sets steepest and lowest from `result.rates` and `result.smoothed`; exposed for tests.
Status choose_rate(RateSearchResult& result);

}  // namespace makar
