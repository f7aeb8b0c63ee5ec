// The optimisers' elementwise update on a range of one parameter.
#include "kernels/cpu/isa/math.h"
#include "kernels/cpu/isa/sections.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

// Adam with decoupled weight decay (Loshchilov & Hutter, 2019), in PyTorch's order of operations: p *= decay;
// m, v moments; p -= step * m / (sqrt(v) * v_scale + eps). 1 - beta must not be computed in f32: for beta2 =
// 0.999 the fifth digit would be wrong.
void adamw(float* p, const float* g, float* m, float* v, int64_t n, const AdamStep& s) {
  for (int64_t i = 0; i < n; ++i) {
    const float grad = madd(s.l2, p[i], g[i] * s.grad_scale);
    const float m1 = madd(s.rest1, grad - m[i], m[i]);
    const float v1 = madd(s.rest2 * grad, grad, s.beta2 * v[i]);
    m[i] = m1;
    v[i] = v1;
    p[i] = p[i] * s.decay - s.step * m1 / madd(std::sqrt(v1), s.v_scale, s.eps);
  }
}

}  // namespace

void fill_update(Table& t) { t.adamw = adamw; }

}  // namespace makar::kernels::MAKAR_ISA
