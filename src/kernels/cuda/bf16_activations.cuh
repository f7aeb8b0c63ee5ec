// Activations with the hardware's exponential, for bf16 results.
#pragma once
#include <cuda_runtime.h>

namespace makar::kernels::cuda {

// 1 / (1 + e^-x) with the hardware's exponential.
__device__ inline float fast_sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

struct FastSilu {
  static __device__ float value(float x) { return x * fast_sigmoid(x); }
  static __device__ float slope(float x) {
    const float s = fast_sigmoid(x);
    return s * fmaf(x, 1.0f - s, 1.0f);
  }
};
// x / (1 + e^(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3): the tanh form without cancellation.
struct FastGeluTanh {
  static constexpr float kScale = 1.5957691216057308f, kCube = 0.044715f;  // kScale: 2 sqrt(2 / pi)
  static __device__ float value(float x) { return x * fast_sigmoid(kScale * x * fmaf(kCube, x * x, 1.0f)); }
  static __device__ float slope(float x) {
    const float s = fast_sigmoid(kScale * x * fmaf(kCube, x * x, 1.0f));
    return fmaf(x * s * (1.0f - s), kScale * fmaf(3.0f * kCube, x * x, 1.0f), s);
  }
};

}  // namespace makar::kernels::cuda
