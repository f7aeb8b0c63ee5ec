// Arguments of optimiser steps.
#pragma once
#include <cstdint>

namespace makar::kernels {

// The sum of squares of a tensor: in double, lane i adds the elements i, i + kSquareLanes, ..., then the
// lanes are added in order.
constexpr int64_t kSquareLanes = 1024;

enum class UpdateKind { kSgd, kMomentum, kNesterov, kAdagrad, kRmsprop, kLion };
struct Update {  // updates p with the gradient factor * g (+ l2 * p)
  UpdateKind kind;
  float* p;
  const float* g;
  float* state;  // null for kSgd
  int64_t n;
  float lr, factor, l2;
  float momentum, eps;
  float beta1, rest1, beta2, rest2;  // rest: 1 - beta, rounded once from double
  float decay;                       // p *= decay (kLion)
  bool first;                        // the first step
};
struct AdamStep {
  float beta2, rest1, rest2;  // rest: 1 - beta, rounded once from double
  float eps, step, v_scale;   // p -= step * m / (sqrt(v) * v_scale + eps)
  float decay, l2;            // p *= decay first (AdamW); l2 * p is added to the gradient (Adam)
  float grad_scale;
};
struct AdamW {
  float* p;
  const float* g;
  float *m, *v;
  int64_t n;
  AdamStep step;
};
struct AdamWList {
  const AdamW* items;  // in host memory
  int64_t count;
};
struct Adafactor {  // Shazeer & Stern, 2018, as torch.optim.Adafactor computes it
  float* p;
  const float* g;
  float* row_var;  // per row of each matrix, or the variance of every element of a vector
  float* col_var;  // per column of each matrix; null for a vector
  float* scratch;  // n values
  int64_t n, rows, cols;
  double weight, rho;  // weight of the new variance; relative step size
  float factor, decay;
};
struct MuonMomentum {  // v += rest * (g' - v), x = g' + mu * (v - g') with g' = factor * g; x is transposed
                       // if `transposed`
  const float* g;
  float *v, *x;
  int64_t rows, cols;
  bool transposed;  // x is [cols, rows]
  float factor, mu, rest;
};
struct Normalize {  // x /= max(|x|, min), for `count` consecutive x; norms are computed with kSquareLanes
                    // sums
  float* x;
  int64_t n;
  double min;
  int64_t count = 1;
};
struct MuonApply {  // p = p * decay - step * x
  float* p;
  const float* x;
  int64_t rows, cols;
  bool transposed;
  float step, decay;
};

}  // namespace makar::kernels
