// Muon (Jordan et al., 2024): momentum orthogonalised by five Newton-Schulz steps, for matrices. Other
// parameters use AdamW: Optimizer::make assigns that rule. Matrices of one shape are stepped together: a
// GPU then runs a few large kernels instead of many small ones. The bits are the same as for one matrix at a
// time.
#include <algorithm>
#include <cmath>
#include <map>

#include "ops/tape.h"
#include "optim/rules.h"

namespace makar {
namespace {

// Values stepped together, unless one matrix has more.
constexpr int64_t kMaxValuesTogether = int64_t{8} << 20;

// Orthogonalises each X [m, n], m <= n, of x [count, m, n] approximately: X <- a X + (b A + c A A) X with A =
// X X^T, five times.
void newton_schulz(Device& device, const Tensor& x) {
  constexpr float a = 3.4445f, b = -4.7750f, c = 2.0315f;
  const int64_t count = x.dim(0), m = x.dim(1), n = x.dim(2);
  const auto scratch = [&](int64_t rows, int64_t cols) {
    return Tensor::empty({count, rows, cols}, DType::kF32, device.memory());
  };
  const Tensor gram = scratch(m, m), poly = scratch(m, m), next = scratch(m, n);
  float *px = f32_on(device, x), *pg = gram.f32_address(), *pp = poly.f32_address(), *pn = next.f32_address();
  for (int step = 0; step < 5; ++step) {
    device.gemm_batch(
        {{m, m, n, {px, DType::kF32, n, 1}, {px, DType::kF32, n, 1}, {pg, m}}, count, m * n, m * n, m * m});
    device.gemm_batch(
        {{m, m, m, {pg, DType::kF32, m, 1}, {pg, DType::kF32, 1, m}, {pp, m}}, count, m * m, m * m, m * m});
    device.scale({pp, pp, count * m * m, c, false});
    device.scale({pg, pp, count * m * m, b, true});
    device.gemm_batch(
        {{m, n, m, {pp, DType::kF32, m, 1}, {px, DType::kF32, 1, n}, {pn, n}}, count, m * m, m * n, m * n});
    device.scale({px, pn, count * m * n, a, true});
    device.memory().copy(x.address(), next.address(), x.bytes());
  }
}

// Steps matrices of one shape, up to transposition.
void step_together(std::span<const Update* const> all) {
  Device& device = all[0]->device;
  const int64_t rows = all[0]->p.dim(0), cols = all[0]->p.dim(1), size = rows * cols;
  const auto count = static_cast<int64_t>(all.size());
  const Tensor x =
      Tensor::empty({count, std::min(rows, cols), std::max(rows, cols)}, DType::kF32, device.memory());
  const auto tall = [](const Update& u) { return u.p.dim(0) > u.p.dim(1); };
  float* at = f32_on(device, x);
  for (const Update* u : all) {
    device.muon_momentum({f32_on(device, u->g), f32_on(device, u->slots[0]), at, u->p.dim(0), u->p.dim(1),
                          tall(*u), static_cast<float>(u->factor), static_cast<float>(u->momentum),
                          static_cast<float>(1.0 - u->momentum)});
    at += size;
  }
  device.normalize({f32_on(device, x), size, 1e-7, count});
  newton_schulz(device, x);
  at = f32_on(device, x);
  for (const Update* u : all) {
    const double height = static_cast<double>(u->p.dim(0)), width = static_cast<double>(u->p.dim(1));
    // AdamW's updates have an RMS of about 0.2.
    const double ratio = u->options.muon_match_adamw ? 0.2 * std::sqrt(std::max(height, width))
                                                     : std::sqrt(std::max(1.0, height / width));
    device.muon_apply({f32_on(device, u->p), at, u->p.dim(0), u->p.dim(1), tall(*u),
                       static_cast<float>(u->lr * ratio), static_cast<float>(1.0 - u->lr * u->weight_decay)});
    at += size;
  }
}

}  // namespace

std::vector<Slot> muon_slots(const Shape& shape) { return {{"momentum_buffer", shape}}; }

void muon(std::span<const Update> all) {
  std::map<std::pair<int64_t, int64_t>, std::vector<const Update*>> by_shape;
  for (const Update& u : all) by_shape[std::minmax({u.p.dim(0), u.p.dim(1)})].push_back(&u);
  for (const auto& [sides, updates] : by_shape) {
    const auto per_batch = static_cast<size_t>(
        std::max<int64_t>(1, kMaxValuesTogether / std::max<int64_t>(sides.first * sides.second, 1)));
    for (size_t i = 0; i < updates.size(); i += per_batch)
      step_together(std::span(updates).subspan(i, std::min(per_batch, updates.size() - i)));
  }
}

}  // namespace makar
