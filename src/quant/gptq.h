// Error-minimising rounding (GPTQ, Frantar et al., 2022, in the form of LDLQ, Chee et al., 2023): columns are
// rounded in order, and later columns compensate the output error of earlier ones.
//
//   H = x^T x = M M^T, M upper triangular;   target_k = w_k + sum over i < k of (w_i - q_i) M[i,k] / M[k,k]
#pragma once
#include <vector>

#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace makar {

// M[i,k] / M[k,k] above the diagonal, f32 [n, n]; `h` is damped by 1 % of its mean diagonal. `pivots`
// receives M[k,k].
Tensor feedback_of(ThreadPool& pool, const Tensor& h, std::vector<double>* pivots = nullptr);

// `w`: f32 [rows, n]; the scales of a block are chosen when rounding reaches it. The bits do not depend on
// the number of threads.
Tensor encode_gptq(ThreadPool& pool, const Tensor& w, DType type, const Tensor& h);

}  // namespace makar
