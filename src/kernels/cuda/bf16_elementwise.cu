// Elementwise kernels on bf16 activations.
#include "kernels/cpu/isa/activations.h"
#include "kernels/cuda/bf16_activations.cuh"
#include "kernels/cuda/column_sums.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

template <class From, class To>
void run_convert(cudaStream_t stream, const Convert& a) {
  const auto* x = static_cast<const From*>(a.x);
  auto* y = static_cast<To*>(a.y);
  const bool vector = all_aligned(x, y), accumulate = a.accumulate;
  const float* factor = a.factor;
  const bool in_place = a.x == a.y && a.from == a.to && !accumulate;
  each8(stream, a.n, [=] __device__(int64_t i, int64_t left) {
    float v[8], sum[8];
    if (in_place && (!factor || factor[0] == 1.0f)) return;
    load8(x + i, left, vector, v);
    if (factor)
      for (int j = 0; j < 8; ++j) v[j] *= factor[0];
    if (accumulate) {
      load8(y + i, left, vector, sum);
      for (int j = 0; j < 8; ++j) v[j] += sum[j];
    }
    store8(y + i, left, vector, v);
  });
}

template <class F>
void with_activation(Activation kind, F&& body) {
  switch (kind) {
    case Activation::kRelu:
      return body(cuda::Relu());
    case Activation::kGelu:
      return body(cuda::Gelu());
    case Activation::kGeluTanh:
      return body(FastGeluTanh());
    case Activation::kSilu:
      return body(FastSilu());
    case Activation::kTanh:
      return body(cuda::Tanh());
    case Activation::kSigmoid:
      return body(cuda::Sigmoid());
    case Activation::kSoftplus:
      return body(cuda::Softplus());
    case Activation::kExp:
      return body(cuda::Exp());
    case Activation::kLogSigmoid:
      return body(cuda::LogSigmoid());
    case Activation::kSquare:
      return body(cuda::Square());
  }
}

template <class A>
void run_activate(cudaStream_t stream, const ActivateBf16& a, A) {
  const bool vector = all_aligned(a.x, a.y);
  each8(stream, a.n, [=] __device__(int64_t i, int64_t left) {
    float v[8];
    load8(a.x + i, left, vector, v);
    for (int j = 0; j < 8; ++j) v[j] = A::value(v[j]);
    store8(a.y + i, left, vector, v);
  });
}
// Writes eight values of dx, and leaves them in d.
template <class A>
__device__ inline void activate_backward8(const ActivateBackwardBf16& a, int64_t i, int64_t left, bool vector, float (&d)[8]) {
  float x[8], sum[8];
  load8(a.x + i, left, vector, x);
  load8(a.dy + i, left, vector, d);
  for (int j = 0; j < 8; ++j) d[j] *= A::slope(x[j]);
  if (a.accumulate) {
    load8(a.dx + i, left, vector, sum);
    for (int j = 0; j < 8; ++j) d[j] += sum[j];
  }
  store8(a.dx + i, left, vector, d);
}
template <class A>
void run_activate_backward(cudaStream_t stream, Memory& memory, const ActivateBackwardBf16& a, A) {
  if (a.column_sums) {
    const bool vector = all_aligned(a.x, a.dy, a.dx) && a.cols % 8 == 0;
    const ColumnTarget to[1] = {{a.column_sums, false}};
    return column_totals<1>(stream, memory, a.n / a.cols, a.cols, to,
                            [=] __device__(int64_t r, int64_t c, int64_t left, float(&sums)[1][8]) {
                              float d[8];
                              activate_backward8<A>(a, r * a.cols + c, left, vector, d);
                              for (int j = 0; j < 8; ++j) sums[0][j] += j < left ? widen(narrow(d[j])) : 0.0f;
                            });
  }
  const bool vector = all_aligned(a.x, a.dy, a.dx);
  each8(stream, a.n, [=] __device__(int64_t i, int64_t left) {
    float d[8];
    activate_backward8<A>(a, i, left, vector, d);
  });
}
template <class A>
void run_gated(cudaStream_t stream, const GatedBf16& a, A) {
  const bool vector = all_aligned(a.gate, a.up, a.y);
  each8(stream, a.n, [=] __device__(int64_t i, int64_t left) {
    float g[8], u[8];
    load8(a.gate + i, left, vector, g);
    load8(a.up + i, left, vector, u);
    for (int j = 0; j < 8; ++j) u[j] *= A::value(g[j]);
    store8(a.y + i, left, vector, u);
  });
}
template <class A>
void run_gated_backward(cudaStream_t stream, const GatedBackwardBf16& a, A) {
  const bool vector = all_aligned(a.gate, a.up, a.dy, a.dgate) && aligned(a.dup);
  each8(stream, a.n, [=] __device__(int64_t i, int64_t left) {
    float g[8], u[8], d[8];
    load8(a.gate + i, left, vector, g);
    load8(a.up + i, left, vector, u);
    load8(a.dy + i, left, vector, d);
    for (int j = 0; j < 8; ++j) {
      u[j] = d[j] * u[j] * A::slope(g[j]);
      d[j] *= A::value(g[j]);
    }
    store8(a.dgate + i, left, vector, u);
    store8(a.dup + i, left, vector, d);
  });
}

}  // namespace

void CudaDevice::convert(const Convert& a) {
  const bool from_f32 = a.from == DType::kF32, to_f32 = a.to == DType::kF32;
  if (from_f32 && to_f32) return run_convert<float, float>(stream_, a);
  if (from_f32) return run_convert<float, Bf16>(stream_, a);
  if (to_f32) return run_convert<Bf16, float>(stream_, a);
  run_convert<Bf16, Bf16>(stream_, a);
}

void CudaDevice::round_layer_bf16(const RoundLayerBf16& a) {
  const bool vector = all_aligned(a.weights, a.biases) && all_aligned(a.to_weights, a.to_biases);
  const int64_t weight_groups = (a.weight_count + 7) / 8, groups = weight_groups + (a.bias_count + 7) / 8;
  each(stream_, groups, [=] __device__(int64_t group) {
    const bool bias = group >= weight_groups;
    const int64_t i = 8 * (bias ? group - weight_groups : group), left = (bias ? a.bias_count : a.weight_count) - i;
    float v[8];
    load8((bias ? a.biases : a.weights) + i, left, vector, v);
    store8((bias ? a.to_biases : a.to_weights) + i, left, vector, v);
  });
}

void CudaDevice::add_bf16(const AddBf16& a) {
  const bool vector = all_aligned(a.a, a.y) && aligned(a.b);
  each8(stream_, a.n, [=] __device__(int64_t i, int64_t left) {
    float x[8], y[8];
    load8(a.a + i, left, vector, x);
    load8(a.b + i, left, vector, y);
    for (int j = 0; j < 8; ++j) x[j] += y[j];
    store8(a.y + i, left, vector, x);
  });
}

void CudaDevice::activate_bf16(const ActivateBf16& a) {
  with_activation(a.kind, [&](auto f) { run_activate(stream_, a, f); });
}
void CudaDevice::activate_backward_bf16(const ActivateBackwardBf16& a) {
  with_activation(a.kind, [&](auto f) { run_activate_backward(stream_, memory_, a, f); });
}
void CudaDevice::gated_bf16(const GatedBf16& a) {
  with_activation(a.kind, [&](auto f) { run_gated(stream_, a, f); });
}
void CudaDevice::gated_backward_bf16(const GatedBackwardBf16& a) {
  with_activation(a.kind, [&](auto f) { run_gated_backward(stream_, a, f); });
}

void CudaDevice::rope_bf16(const RopeBf16& a) {
  const int half = static_cast<int>(a.rotary / 2), dim = static_cast<int>(a.head_dim), heads = static_cast<int>(a.heads);
  const int pairs = half + dim - static_cast<int>(a.rotary), width = heads * dim, items = heads * pairs;
  if (!a.interleaved && a.rotary == dim && half % 8 == 0 && all_aligned(a.x, a.y) && all_aligned(a.cos, a.sin)) {
    const int groups = half / 8;  // of eight pairs
    return each(stream_, a.rows * heads * groups, [=] __device__(int64_t item) {
      const int64_t row = item / (heads * groups);
      const int in_row = static_cast<int>(item - row * heads * groups), i = in_row % groups * 8;
      const int64_t at = row * width + in_row / groups * dim + i;
      float p[8], q[8], c[8], s[8], turned[8];
      load8(a.x + at, 8, true, p), load8(a.x + at + half, 8, true, q);
      load8(a.cos + row * half + i, 8, true, c), load8(a.sin + row * half + i, 8, true, s);
      for (int j = 0; j < 8; ++j) {
        s[j] *= a.sign;
        turned[j] = madd(p[j], c[j], -(q[j] * s[j]));
      }
      store8(a.y + at, 8, true, turned);
      for (int j = 0; j < 8; ++j) turned[j] = madd(q[j], c[j], p[j] * s[j]);
      store8(a.y + at + half, 8, true, turned);
    });
  }
  // One thread per rotated pair, and one per unrotated dimension.
  each(stream_, a.rows * items, [=] __device__(int64_t item) {
    const int64_t r = item / items;
    const int in_row = static_cast<int>(item - r * items), head = in_row / pairs, i = in_row - head * pairs;
    const Bf16* x = a.x + r * width + head * dim;
    Bf16* y = a.y + r * width + head * dim;
    if (i >= half) {
      y[i + half] = x[i + half];
      return;
    }
    const int first = a.interleaved ? 2 * i : i, second = a.interleaved ? 2 * i + 1 : i + half;
    const float p = widen(x[first]), q = widen(x[second]), c = a.cos[r * half + i], s = a.sin[r * half + i] * a.sign;
    y[first] = narrow(madd(p, c, -(q * s)));
    y[second] = narrow(madd(q, c, p * s));
  });
}

}  // namespace makar
