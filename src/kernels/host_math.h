// Kernels that host code above kernels/ (samplers, loaders) runs on host memory.
#pragma once
#include <cstdint>

namespace makar::kernels {

// log(sum of exp(x)), added in the same order as in the softmax kernels.
float log_sum_exp(const float* x, int64_t n);
// y = exp(x), bit-identical to the kernels' exp.
void exp_of(const float* x, float* y, int64_t n);
// True if, on this machine, products on f16 weights are faster with 16-bit integers (DType::kF16_64) than in
// f32.
bool int16_products_are_faster();

}  // namespace makar::kernels
