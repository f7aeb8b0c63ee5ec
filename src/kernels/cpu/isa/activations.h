// Activations: the value and the derivative (slope) at one point.
#pragma once
#include "kernels/cpu/isa/math.h"

namespace makar::kernels::MAKAR_ISA {

constexpr float kSqrtHalf = 0.70710678f, kInvSqrt2Pi = 0.39894228f, kTanhA = 0.79788456f, kTanhB = 0.044715f;

struct Relu {
  MAKAR_INLINE static float value(float x) { return x < 0.0f ? 0.0f : x; }  // NaN stays NaN
  MAKAR_INLINE static float slope(float x) { return x > 0.0f ? 1.0f : 0.0f; }
};
struct Gelu {  // x * Phi(x)
  MAKAR_INLINE static float value(float x) { return 0.5f * x * (1.0f + erf_of(x * kSqrtHalf)); }
  MAKAR_INLINE static float slope(float x) {
    return madd(x * kInvSqrt2Pi, exp_of(-0.5f * x * x), 0.5f * (1.0f + erf_of(x * kSqrtHalf)));
  }
};
struct GeluTanh {
  MAKAR_INLINE static float inner(float x) { return kTanhA * madd(kTanhB * x * x, x, x); }
  MAKAR_INLINE static float value(float x) { return 0.5f * x * (1.0f + tanh_of(inner(x))); }
  MAKAR_INLINE static float slope(float x) {
    const float t = tanh_of(inner(x));
    const float d = kTanhA * madd(3.0f * kTanhB * x, x, 1.0f);
    return madd(0.5f * x * (1.0f - t * t), d, 0.5f * (1.0f + t));
  }
};
struct Silu {
  MAKAR_INLINE static float value(float x) { return x * sigmoid_of(x); }
  MAKAR_INLINE static float slope(float x) {
    const float s = sigmoid_of(x);
    return s * madd(x, 1.0f - s, 1.0f);
  }
};
struct Tanh {
  MAKAR_INLINE static float value(float x) { return tanh_of(x); }
  MAKAR_INLINE static float slope(float x) {
    const float t = tanh_of(x);
    return 1.0f - t * t;
  }
};
struct Sigmoid {
  MAKAR_INLINE static float value(float x) { return sigmoid_of(x); }
  MAKAR_INLINE static float slope(float x) {
    const float s = sigmoid_of(x);
    return s * (1.0f - s);
  }
};
struct Softplus {
  MAKAR_INLINE static float value(float x) { return softplus_of(x); }
  MAKAR_INLINE static float slope(float x) { return sigmoid_of(x); }
};
struct Exp {
  MAKAR_INLINE static float value(float x) { return exp_of(x); }
  MAKAR_INLINE static float slope(float x) { return exp_of(x); }
};
struct LogSigmoid {
  MAKAR_INLINE static float value(float x) { return -Softplus::value(-x); }
  MAKAR_INLINE static float slope(float x) { return sigmoid_of(-x); }
};
struct Square {
  MAKAR_INLINE static float value(float x) { return x * x; }
  MAKAR_INLINE static float slope(float x) { return 2.0f * x; }
};

}  // namespace makar::kernels::MAKAR_ISA
