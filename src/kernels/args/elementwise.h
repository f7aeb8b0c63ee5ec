// Arguments of elementwise kernels.
#pragma once
#include "kernels/args/types.h"

namespace makar::kernels {

struct Fill {  // y = value
  float* y;
  int64_t n;
  float value;
};
struct FillFrom {  // y = value[0] * factor, multiplied in double
  const float* value;
  float* y;
  int64_t n;
  double factor;
};
struct Add {  // y[rows, n] = a[rows, n] + b[n], or a - b; y may be a
  const float *a, *b;
  float* y;
  int64_t rows, n;
  bool subtract;
};
struct Multiply {  // y[rows, n] (+)= a[rows, n] * b[n]
  const float *a, *b;
  float* y;
  int64_t rows, n;
  bool accumulate;
};
struct MultiplySum {  // y[n] (+)= sum over rows, in order, of a[rows, n] * b[rows, n]
  const float *a, *b;
  float* y;
  int64_t rows, n;
  bool accumulate;
};
struct SumRows {  // y[n] (+)= sum over rows, in order, of factor * x[rows, n]
  const float* x;
  float* y;
  int64_t rows, n;
  float factor;
  bool accumulate;
};
struct Scale {  // y (+)= factor * x; y may be x
  const float* x;
  float* y;
  int64_t n;
  float factor;
  bool accumulate;
};
struct ScaleBy {  // y (+)= factor[0] * x; y may be x
  const float *x, *factor;
  float* y;
  int64_t n;
  bool accumulate;
};
struct Shift {  // y = x + constant
  const float* x;
  float* y;
  int64_t n;
  float constant;
};
enum class PairKind { kDivide, kMinimum, kMaximum, kClamp };
struct Pair {  // y = f(a, b); kClamp limits a to [low, high]
  PairKind kind;
  const float *a, *b;
  float* y;
  int64_t n;
  float low, high;
};
struct PairBackward {
  PairKind kind;
  const float *a, *b, *dy;
  float *da, *db;
  int64_t n;
  float low, high;
};
template <class T>
struct ActivateOf {
  Activation kind;
  const T* x;
  T* y;
  int64_t n;
};
using Activate = ActivateOf<float>;
using ActivateBf16 = ActivateOf<Bf16>;
template <class T>
struct ActivateBackwardOf {  // dx (+)= f'(x) * dy
  Activation kind;
  const T *x, *dy;
  T* dx;
  int64_t n;
  bool accumulate;
};
using ActivateBackward = ActivateBackwardOf<float>;
struct ActivateBackwardBf16 : ActivateBackwardOf<Bf16> {
  int64_t cols = 1;              // of the rows of x
  float* column_sums = nullptr;  // [cols], of dx; may be null
};
template <class T>
struct GatedOf {  // y = f(gate) * up
  Activation kind;
  const T *gate, *up;
  T* y;
  int64_t n;
};
using Gated = GatedOf<float>;
using GatedBf16 = GatedOf<Bf16>;
template <class T>
struct GatedBackwardOf {
  Activation kind;
  const T *gate, *up, *dy;
  T *dgate, *dup;
  int64_t n;
};
using GatedBackward = GatedBackwardOf<float>;
using GatedBackwardBf16 = GatedBackwardOf<Bf16>;
struct Dropout {  // y (+)= x * (0 or 1 / (1 - rate)); element i depends only on (seed, step, stream, i)
  const float* x;
  float* y;
  int64_t n;
  float rate;
  uint64_t seed, step, stream;
  bool accumulate;
};
struct Blend {  // y += weight * (x - y)
  const float* x;
  float* y;
  int64_t n;
  float weight;
};

}  // namespace makar::kernels
