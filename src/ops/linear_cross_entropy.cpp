// Cross-entropy of a linear layer's output, a block of rows at a time: the logits of a long batch never exist
// all at once, and their gradient overwrites them in place.
#include <algorithm>
#include <cmath>

#include "kernels/gemm.h"
#include "kernels/kernels.h"
#include "ops/linear.h"
#include "ops/ranges.h"
#include "ops/softmax.h"

namespace makar::ops {
namespace {

// Row loss with a soft cap: the row is capped in place first; the gradient is chained through the cap.
float row_loss(float* row, int64_t n, int64_t target, const CrossEntropyOptions& o, float weight,
               bool gradient) {
  const auto& k = kernels::cpu();
  if (o.soft_cap <= 0.0f)
    return k.cross_entropy(row, gradient ? row : nullptr, n, target, o.smoothing, weight);
  const auto& tanh = k.activation[static_cast<int>(kernels::Activation::kTanh)];
  k.scale(row, 1.0f / o.soft_cap, row, n, false);
  tanh.forward(row, row, n);
  std::vector<float> t(row, row + n);
  k.scale(row, o.soft_cap, row, n, false);
  const float loss = k.cross_entropy(row, gradient ? row : nullptr, n, target, o.smoothing, weight);
  if (gradient)
    for (int64_t i = 0; i < n; ++i) row[i] *= 1.0f - t[static_cast<size_t>(i)] * t[static_cast<size_t>(i)];
  return loss;
}

}  // namespace

Tensor linear_cross_entropy(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b,
                            std::span<const int64_t> targets, const CrossEntropyOptions& options) {
  using kernels::Operand;
  const int64_t width = x.dim(-1), rows = static_cast<int64_t>(targets.size()), classes = w.dim(0);
  check(x.count() == rows * width && w.dim(1) == width, "linear_cross_entropy: shapes disagree");
  int64_t counted = 0;
  for (const int64_t t : targets) {
    check(t == kIgnore || (t >= 0 && t < classes), "linear_cross_entropy: target out of range");
    counted += t != kIgnore;
  }
  const float weight = options.reduction == Reduction::kMean ? 1.0f / static_cast<float>(counted) : 1.0f;
  const bool need_x = ctx.needs(x), need_w = ctx.needs(w), need_b = ctx.needs(b),
             need = need_x || need_w || need_b;
  check(rows > 0 && classes > 0 && (!b.defined() || b.count() == classes),
        "linear_cross_entropy: shapes disagree");
  Tensor dx = need_x ? Tensor::empty(x.shape()) : Tensor(), dw = need_w ? Tensor::empty(w.shape()) : Tensor();
  Tensor db = need_b ? Tensor::zeros(b.shape()) : Tensor();
  const int64_t step = std::clamp<int64_t>(options.held_logits / classes, 1, rows);
  Tensor logits = Tensor::empty({step, classes});
  std::vector<float> losses(static_cast<size_t>(rows));
  const Operand whole{w.raw(), w.dtype(), width, 1};
  kernels::PackedMatrix packed;
  if (is_block(w.dtype())) packed = kernels::PackedMatrix::pack(ctx.pool, whole, classes, width);
  for (int64_t r0 = 0; r0 < rows; r0 += step) {
    const int64_t n = std::min(step, rows - r0);
    const Operand part{x.f32() + r0 * width, DType::kF32, width, 1};
    const kernels::GemmOutput to{logits.f32(), classes, false, b.defined() ? b.f32() : nullptr};
    if (packed.defined())
      kernels::gemm(ctx.pool, n, part, packed, to);
    else
      kernels::gemm(ctx.pool, n, classes, width, part, whole, to);
    each_rows(ctx, n, classes, [&](int64_t i0, int64_t i1) {
      for (int64_t i = i0; i < i1; ++i) {
        const int64_t target = targets[static_cast<size_t>(r0 + i)];
        float* row = logits.f32() + i * classes;
        if (target != kIgnore)
          losses[static_cast<size_t>(r0 + i)] = row_loss(row, classes, target, options, weight, need);
        else
          std::fill_n(row, classes, 0.0f);
      }
    });
    const Operand by_class{logits.f32(), DType::kF32, 1, classes};
    if (need_w)
      kernels::gemm(ctx.pool, classes, width, n, by_class,
                    Operand{x.f32() + r0 * width, DType::kF32, 1, width}, {dw.f32(), width, r0 > 0});
    if (need_b)
      for (int64_t i = 0; i < n; ++i)
        kernels::cpu().add(db.f32(), logits.f32() + i * classes, db.f32(), classes);
    if (need_x) input_gradient(ctx.pool, n, logits.f32(), w, {dx.f32() + r0 * width, width});
  }
  double total = 0;
  for (const float l : losses) total += l;
  if (options.reduction == Reduction::kMean) total /= static_cast<double>(counted);
  Tensor y = Tensor::full({}, static_cast<float>(total));
  if (need)
    ctx.tape->record(y, [&ctx, to_x = Key(x), to_w = Key(w), to_b = Key(b), dx, dw, db](const Tensor& dy) {
      const auto pass = [&](const Key& to, const Tensor& d) {
        if (!d.defined()) return;
        if (dy.f32()[0] != 1.0f)
          each_range(ctx, d.count(), [&](int64_t i, int64_t e) {
            kernels::cpu().scale(d.f32() + i, dy.f32()[0], d.f32() + i, e - i, false);
          });
        ctx.tape->pass(to, d);
      };
      pass(to_x, dx);
      pass(to_w, dw);
      pass(to_b, db);
    });
  return y;
}

}  // namespace makar::ops
