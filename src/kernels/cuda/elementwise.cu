#include "base/rng.h"
#include "kernels/cpu/isa/activations.h"
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/launch.cuh"

namespace makar {

using namespace kernels;
using cuda::each;
using cuda::madd;

void CudaDevice::fill(const Fill& a) {
  each(stream_, a.n, [=] __device__(int64_t i) { a.y[i] = a.value; });
}
void CudaDevice::fill_from(const FillFrom& a) {
  each(stream_, a.n, [=] __device__(int64_t i) { a.y[i] = static_cast<float>(a.value[0] * a.factor); });
}
void CudaDevice::add(const Add& a) {
  each(stream_, a.rows * a.n, [=] __device__(int64_t i) {
    const float b = a.b[i % a.n];
    a.y[i] = a.subtract ? a.a[i] - b : a.a[i] + b;
  });
}
void CudaDevice::multiply(const Multiply& a) {
  each(stream_, a.rows * a.n, [=] __device__(int64_t i) {
    const float b = a.b[i % a.n];
    a.y[i] = a.accumulate ? madd(a.a[i], b, a.y[i]) : a.a[i] * b;
  });
}
void CudaDevice::multiply_sum(const MultiplySum& a) {
  each(stream_, a.n, [=] __device__(int64_t i) {
    if (a.rows == 0) return;
    float sum = a.accumulate ? madd(a.a[i], a.b[i], a.y[i]) : a.a[i] * a.b[i];
    for (int64_t r = 1; r < a.rows; ++r) sum = madd(a.a[r * a.n + i], a.b[r * a.n + i], sum);
    a.y[i] = sum;
  });
}
void CudaDevice::sum_rows(const SumRows& a) {
  each(stream_, a.n, [=] __device__(int64_t i) {
    float sum = a.accumulate ? a.y[i] : 0.0f;
    for (int64_t r = 0; r < a.rows; ++r) sum = madd(a.x[r * a.n + i], a.factor, sum);
    a.y[i] = sum;
  });
}
void CudaDevice::scale(const Scale& a) {
  each(stream_, a.n, [=] __device__(int64_t i) {
    a.y[i] = a.accumulate ? madd(a.x[i], a.factor, a.y[i]) : a.x[i] * a.factor;
  });
}
void CudaDevice::scale_by(const ScaleBy& a) {
  each(stream_, a.n, [=] __device__(int64_t i) {
    a.y[i] = a.accumulate ? madd(a.x[i], a.factor[0], a.y[i]) : a.x[i] * a.factor[0];
  });
}
void CudaDevice::shift(const Shift& a) {
  each(stream_, a.n, [=] __device__(int64_t i) { a.y[i] = a.x[i] + a.constant; });
}

void CudaDevice::pair(const Pair& a) {
  each(stream_, a.n, [=] __device__(int64_t i) {
    const float x = a.a[i], y = a.b ? a.b[i] : 0.0f;
    switch (a.kind) {
      case PairKind::kDivide: a.y[i] = x / y; break;
      case PairKind::kMinimum: a.y[i] = y < x ? y : x; break;
      case PairKind::kMaximum: a.y[i] = y > x ? y : x; break;
      case PairKind::kClamp: a.y[i] = x < a.low ? a.low : (x > a.high ? a.high : x); break;
    }
  });
}
void CudaDevice::pair_backward(const PairBackward& a) {
  each(stream_, a.n, [=] __device__(int64_t i) {
    const float x = a.a[i], y = a.b ? a.b[i] : 0.0f;
    float da = 0, db = 0;
    switch (a.kind) {
      case PairKind::kDivide: da = 1.0f / y, db = -x / (y * y); break;
      case PairKind::kMinimum: (y < x ? db : da) = 1.0f; break;
      case PairKind::kMaximum: (y > x ? db : da) = 1.0f; break;
      case PairKind::kClamp: da = x >= a.low && x <= a.high ? 1.0f : 0.0f; break;
    }
    a.da[i] = da * a.dy[i];
    if (a.db) a.db[i] = db * a.dy[i];
  });
}

namespace {

// Calls body(f) with the activation of `kind`.
template <class F>
void with_activation(Activation kind, F&& body) {
  switch (kind) {
    case Activation::kRelu: return body(cuda::Relu());
    case Activation::kGelu: return body(cuda::Gelu());
    case Activation::kGeluTanh: return body(cuda::GeluTanh());
    case Activation::kSilu: return body(cuda::Silu());
    case Activation::kTanh: return body(cuda::Tanh());
    case Activation::kSigmoid: return body(cuda::Sigmoid());
    case Activation::kSoftplus: return body(cuda::Softplus());
    case Activation::kExp: return body(cuda::Exp());
    case Activation::kLogSigmoid: return body(cuda::LogSigmoid());
    case Activation::kSquare: return body(cuda::Square());
  }
}

template <class A>
void run_activate(cudaStream_t stream, const Activate& a, A) {
  each(stream, a.n, [=] __device__(int64_t i) { a.y[i] = A::value(a.x[i]); });
}
template <class A>
void run_activate_backward(cudaStream_t stream, const ActivateBackward& a, A) {
  each(stream, a.n, [=] __device__(int64_t i) {
    a.dx[i] = a.accumulate ? madd(a.dy[i], A::slope(a.x[i]), a.dx[i]) : a.dy[i] * A::slope(a.x[i]);
  });
}
template <class A>
void run_gated(cudaStream_t stream, const Gated& a, A) {
  each(stream, a.n, [=] __device__(int64_t i) { a.y[i] = A::value(a.gate[i]) * a.up[i]; });
}
template <class A>
void run_gated_backward(cudaStream_t stream, const GatedBackward& a, A) {
  each(stream, a.n, [=] __device__(int64_t i) {
    const float g = a.gate[i], d = a.dy[i], up = a.up[i];
    a.dup[i] = d * A::value(g);
    a.dgate[i] = d * up * A::slope(g);
  });
}

}  // namespace

void CudaDevice::activate(const Activate& a) {
  with_activation(a.kind, [&](auto f) { run_activate(stream_, a, f); });
}
void CudaDevice::activate_backward(const ActivateBackward& a) {
  with_activation(a.kind, [&](auto f) { run_activate_backward(stream_, a, f); });
}
void CudaDevice::gated(const Gated& a) {
  with_activation(a.kind, [&](auto f) { run_gated(stream_, a, f); });
}
void CudaDevice::gated_backward(const GatedBackward& a) {
  with_activation(a.kind, [&](auto f) { run_gated_backward(stream_, a, f); });
}

void CudaDevice::dropout(const Dropout& a) {
  const Rng rng(a.seed, Purpose::kDropout, a.step);
  const float keep = 1.0f / (1.0f - a.rate);
  each(stream_, a.n, [=] __device__(int64_t i) {
    const uint64_t block = static_cast<uint64_t>(i) / 4;  // as in kernels/cpu/elementwise.cpp
    const uint32_t draw = rng.bits(a.stream << 44 | uint64_t{1} << 43 | block)[static_cast<size_t>(i % 4)];
    const float factor = static_cast<float>(draw >> 8) * 0x1p-24f < a.rate ? 0.0f : keep;
    a.y[i] = a.accumulate ? a.x[i] * factor + a.y[i] : a.x[i] * factor;
  });
}
void CudaDevice::blend(const Blend& a) {
  each(stream_, a.n, [=] __device__(int64_t i) { a.y[i] += a.weight * (a.x[i] - a.y[i]); });
}

}  // namespace makar
