// Muon (Jordan et al., 2024): momentum made orthogonal by five Newton-Schulz steps, for matrices. All else is
// stepped by AdamW: Optimizer::make gives those parameters that rule.
#include <algorithm>
#include <cmath>

#include "kernels/gemm.h"
#include "kernels/kernels.h"
#include "optim/rules.h"

namespace makar {
namespace {

using kernels::Operand;

// X [m, n] with m <= n becomes near to orthogonal: X <- a X + (b A + c A A) X with A = X X^T, five times.
void newton_schulz(ThreadPool& pool, const Tensor& x) {
  constexpr float a = 3.4445f, b = -4.7750f, c = 2.0315f;
  const int64_t m = x.dim(0), n = x.dim(1);
  Tensor gram = Tensor::empty({m, m}), poly = Tensor::empty({m, m}), next = Tensor::empty({m, n});
  const auto rows_of = [](const Tensor& t) { return Operand{t.f32(), DType::kF32, t.dim(1), 1}; };
  const auto columns_of = [](const Tensor& t) { return Operand{t.f32(), DType::kF32, 1, t.dim(1)}; };
  const auto& k = kernels::cpu();
  for (int step = 0; step < 5; ++step) {
    kernels::gemm(pool, m, m, n, rows_of(x), rows_of(x), {gram.f32(), m});
    kernels::gemm(pool, m, m, m, rows_of(gram), columns_of(gram), {poly.f32(), m});
    k.scale(poly.f32(), c, poly.f32(), m * m, false);
    k.scale(gram.f32(), b, poly.f32(), m * m, true);
    kernels::gemm(pool, m, n, m, rows_of(poly), columns_of(x), {next.f32(), n});
    k.scale(x.f32(), a, next.f32(), m * n, true);
    std::copy_n(next.f32(), m * n, x.f32());
  }
}

}  // namespace

std::vector<Slot> muon_slots(const Shape& shape) { return {{"momentum_buffer", shape}}; }

void muon(const Update& u) {
  const int64_t rows = u.p.dim(0), cols = u.p.dim(1), n = rows * cols;
  const bool tall = rows > cols;
  float *p = u.p.f32(), *v = u.slots[0].f32();
  const float* g = u.g.f32();
  const float factor = static_cast<float>(u.factor), mu = static_cast<float>(u.momentum),
              rest = static_cast<float>(1.0 - u.momentum);
  Tensor x = tall ? Tensor::empty({cols, rows}) : Tensor::empty({rows, cols});
  const auto at = [=](int64_t i) { return tall ? i % cols * rows + i / cols : i; };
  u.pool.for_ranges(n, 16384, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const float grad = g[i] * factor;
      v[i] += rest * (grad - v[i]);
      x.f32()[at(i)] = grad + mu * (v[i] - grad);  // Nesterov
    }
  });
  double square = 0;
  for (int64_t i = 0; i < n; ++i) square += static_cast<double>(x.f32()[i]) * x.f32()[i];
  const float inverse = static_cast<float>(1.0 / std::max(std::sqrt(square), 1e-7));
  for (float& value : x.span()) value *= inverse;
  newton_schulz(u.pool, x);
  const double height = static_cast<double>(rows), width = static_cast<double>(cols);
  const double ratio = u.options.muon_match_adamw ? 0.2 * std::sqrt(std::max(height, width))
                                                  : std::sqrt(std::max(1.0, height / width));
  const float by = static_cast<float>(u.lr * ratio), decay = static_cast<float>(1.0 - u.lr * u.weight_decay);
  u.pool.for_ranges(n, 16384, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) p[i] = p[i] * decay - by * x.f32()[at(i)];
  });
}

}  // namespace makar
