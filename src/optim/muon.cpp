// Muon (Jordan et al., 2024): momentum orthogonalised by five Newton-Schulz steps, for matrices. Other
// parameters use AdamW: Optimizer::make gives them that rule.
#include <algorithm>
#include <cmath>

#include "ops/tape.h"
#include "optim/rules.h"

namespace makar {
namespace {

// Orthogonalises X [m, n], m <= n, approximately: X <- a X + (b A + c A A) X with A = X X^T, five times.
void newton_schulz(Device& device, const Tensor& x) {
  constexpr float a = 3.4445f, b = -4.7750f, c = 2.0315f;
  const int64_t m = x.dim(0), n = x.dim(1);
  const auto scratch = [&](int64_t rows, int64_t cols) {
    return Tensor::empty({rows, cols}, DType::kF32, device.memory());
  };
  const Tensor gram = scratch(m, m), poly = scratch(m, m), next = scratch(m, n);
  float *px = f32_on(device, x), *pg = gram.f32_address(), *pp = poly.f32_address(), *pn = next.f32_address();
  for (int step = 0; step < 5; ++step) {
    device.gemm({m, m, n, {px, DType::kF32, n, 1}, {px, DType::kF32, n, 1}, {pg, m}});
    device.gemm({m, m, m, {pg, DType::kF32, m, 1}, {pg, DType::kF32, 1, m}, {pp, m}});
    device.scale({pp, pp, m * m, c, false});
    device.scale({pg, pp, m * m, b, true});
    device.gemm({m, n, m, {pp, DType::kF32, m, 1}, {px, DType::kF32, 1, n}, {pn, n}});
    device.scale({px, pn, m * n, a, true});
    device.memory().copy(x.address(), next.address(), x.bytes());
  }
}

}  // namespace

std::vector<Slot> muon_slots(const Shape& shape) { return {{"momentum_buffer", shape}}; }

void muon(const Update& u) {
  const int64_t rows = u.p.dim(0), cols = u.p.dim(1);
  const bool tall = rows > cols;
  const Tensor x =
      Tensor::empty(tall ? Shape{cols, rows} : Shape{rows, cols}, DType::kF32, u.device.memory());
  u.device.muon_momentum({f32_on(u.device, u.g), f32_on(u.device, u.slots[0]), f32_on(u.device, x), rows,
                          cols, tall, static_cast<float>(u.factor), static_cast<float>(u.momentum),
                          static_cast<float>(1.0 - u.momentum)});
  u.device.normalize({f32_on(u.device, x), x.count(), 1e-7});
  newton_schulz(u.device, x);
  const double height = static_cast<double>(rows), width = static_cast<double>(cols);
  const double ratio = u.options.muon_match_adamw ? 0.2 * std::sqrt(std::max(height, width))
                                                  : std::sqrt(std::max(1.0, height / width));
  u.device.muon_apply({f32_on(u.device, u.p), f32_on(u.device, x), rows, cols, tall,
                       static_cast<float>(u.lr * ratio), static_cast<float>(1.0 - u.lr * u.weight_decay)});
}

}  // namespace makar
