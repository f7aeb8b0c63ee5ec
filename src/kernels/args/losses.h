// Arguments of softmax and losses.
#pragma once
#include <cstdint>

namespace makar::kernels {

struct Softmax {
  bool log;
  const float* x;
  float* y;
  int64_t rows, cols;
};
struct SoftmaxBackward {  // from the output y
  bool log;
  const float *y, *dy;
  float* dx;
  int64_t rows, cols;
  bool accumulate;
};
constexpr int64_t kIgnoredTarget = -100;
struct CrossEntropy {  // losses[i] of row i; 0 if the target is kIgnoredTarget
  float* x;            // input; overwritten by the capped logits if soft_cap > 0
  float* dx;           // weight * gradient, 0 in ignored rows; may be null, or x
  const int64_t* targets;
  float* losses;
  int64_t rows, cols;
  float smoothing, weight, soft_cap;
};
struct TotalLoss {  // y[0] = sum of losses in double, in order, divided by `divisor`
  const float* losses;
  float* y;
  int64_t n;
  double divisor;
};
// p = exp(log_p); y[0] = (sum of p * log_p in double, as f32) / rows. The sum: chunks of kSumChunk, in each
// chunk kKlLanes lanes (i % kKlLanes) in order, then lanes and chunks in order.
constexpr int kKlLanes = 32;
struct KlTarget {
  const float* log_p;
  float *p, *y;
  int64_t n;
  float rows;
};

}  // namespace makar::kernels
