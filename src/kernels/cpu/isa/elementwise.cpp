// Activations over arrays, gated products, sums.
#include "kernels/cpu/isa/activations.h"
#include "kernels/cpu/isa/sections.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

template <class F>
void forward(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = F::value(x[i]);
}
template <class F>
void backward(const float* x, const float* dy, float* dx, int64_t n, bool accumulate) {
  if (accumulate)
    for (int64_t i = 0; i < n; ++i) dx[i] = madd(dy[i], F::slope(x[i]), dx[i]);
  else
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * F::slope(x[i]);
}
template <class F>
void gated_forward(const float* gate, const float* up, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = F::value(gate[i]) * up[i];
}
template <class F>
void gated_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                    int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = gate[i], d = dy[i];
    dup[i] = d * F::value(g);
    dgate[i] = d * up[i] * F::slope(g);
  }
}

template <class F>
constexpr ActivationKernels kernels_of() {
  return {forward<F>, backward<F>, gated_forward<F>, gated_backward<F>};
}

void add(const float* a, const float* b, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}
void multiply(const float* a, const float* b, float* y, int64_t n, bool accumulate) {
  if (accumulate)
    for (int64_t i = 0; i < n; ++i) y[i] = madd(a[i], b[i], y[i]);
  else
    for (int64_t i = 0; i < n; ++i) y[i] = a[i] * b[i];
}
void scale(const float* x, float factor, float* y, int64_t n, bool accumulate) {
  if (accumulate)
    for (int64_t i = 0; i < n; ++i) y[i] = madd(x[i], factor, y[i]);
  else
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}
float sum(const float* x, int64_t n) {
  return sum_of(n, [x](int64_t i) { return x[i]; });
}
float sum_squares(const float* x, int64_t n) {
  return dot_of(
      n, [x](int64_t i) { return x[i]; }, [x](int64_t i) { return x[i]; });
}
float dot(const float* a, const float* b, int64_t n) {
  return dot_of(
      n, [a](int64_t i) { return a[i]; }, [b](int64_t i) { return b[i]; });
}

}  // namespace

void fill_elementwise(Table& t) {
  t.activation[static_cast<int>(Activation::kRelu)] = kernels_of<Relu>();
  t.activation[static_cast<int>(Activation::kGelu)] = kernels_of<Gelu>();
  t.activation[static_cast<int>(Activation::kGeluTanh)] = kernels_of<GeluTanh>();
  t.activation[static_cast<int>(Activation::kSilu)] = kernels_of<Silu>();
  t.activation[static_cast<int>(Activation::kTanh)] = kernels_of<Tanh>();
  t.activation[static_cast<int>(Activation::kSigmoid)] = kernels_of<Sigmoid>();
  t.activation[static_cast<int>(Activation::kSoftplus)] = kernels_of<Softplus>();
  t.activation[static_cast<int>(Activation::kExp)] = kernels_of<Exp>();
  t.activation[static_cast<int>(Activation::kLogSigmoid)] = kernels_of<LogSigmoid>();
  t.activation[static_cast<int>(Activation::kSquare)] = kernels_of<Square>();
  t.add = add;
  t.multiply = multiply;
  t.scale = scale;
  t.sum = sum;
  t.sum_squares = sum_squares;
  t.dot = dot;
}

}  // namespace makar::kernels::MAKAR_ISA
