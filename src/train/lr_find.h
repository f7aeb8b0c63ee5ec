// The learning rate range test (Smith, 2015): a short run whose rate grows from step to step, and where its
// loss fell fastest. The model is not good for anything afterwards.
#pragma once
#include <vector>

#include "train/loop.h"

namespace makar {

struct RateSearch {
  int64_t steps = 100;
  double low = 1e-7, high = 1.0;  // rates of the first and of the last step
};

struct RateFound {
  std::vector<double> rates, losses, smoothed;  // one a step, until the loss was twice the first
  double steepest = 0;                          // the suggestion: where the smoothed loss falls fastest
  double lowest = 0;                            // where it is lowest
};

// An error when the loss fell at no rate.
Result<RateFound> find_rate(const Loop& loop, const RateSearch& search);

// For the test of what is chosen: `found.rates` and `found.smoothed` are given.
Status choose_rate(RateFound& found);

}  // namespace makar
