#include "ops/softmax.h"

#include <cmath>

#include "kernels/kernels.h"
#include "ops/elementwise.h"
#include "ops/ranges.h"
#include "ops/shape.h"

namespace makar::ops {
namespace {

using Forward = void (*)(const float*, float*, int64_t);
using Backward = void (*)(const float*, const float*, float*, int64_t, bool);

Tensor rowwise(Context& ctx, const Tensor& x, Forward forward, Backward backward) {
  const int64_t cols = x.dim(-1), rows = cols ? x.count() / cols : 0;
  Tensor y = Tensor::empty(x.shape());
  each_rows(ctx, rows, cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) forward(x.f32() + r * cols, y.f32() + r * cols, cols);
  });
  if (ctx.needs(x))
    ctx.tape->record(y, [&ctx, to = Key(x), y, rows, cols, backward](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      each_rows(ctx, rows, cols, [&](int64_t r0, int64_t r1) {
        for (int64_t r = r0; r < r1; ++r)
          backward(y.f32() + r * cols, dy.f32() + r * cols, t.buffer.f32() + r * cols, cols, t.accumulate);
      });
    });
  return y;
}

}  // namespace

Tensor softmax(Context& ctx, const Tensor& x) {
  return rowwise(ctx, x, kernels::cpu().softmax, kernels::cpu().softmax_backward);
}
Tensor log_softmax(Context& ctx, const Tensor& x) {
  return rowwise(ctx, x, kernels::cpu().log_softmax, kernels::cpu().log_softmax_backward);
}

Tensor cross_entropy(Context& ctx, const Tensor& x, std::span<const int64_t> targets,
                     const CrossEntropyOptions& options) {
  const int64_t rows = static_cast<int64_t>(targets.size()), cols = x.dim(-1);
  check(x.count() == rows * cols, "cross_entropy: one target a row");
  int64_t counted = 0;
  for (const int64_t t : targets) {
    check(t == kIgnore || (t >= 0 && t < cols), "cross_entropy: target out of range");
    counted += t != kIgnore;
  }
  const float weight = options.reduction == Reduction::kMean ? 1.0f / static_cast<float>(counted) : 1.0f;
  const bool need = ctx.needs(x);
  Tensor dx = need ? Tensor::empty(x.shape()) : Tensor();
  std::vector<float> losses(static_cast<size_t>(rows));
  each_rows(ctx, rows, cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      const int64_t target = targets[static_cast<size_t>(r)];
      float* d = need ? dx.f32() + r * cols : nullptr;
      if (target != kIgnore)
        losses[static_cast<size_t>(r)] =
            kernels::cpu().cross_entropy(x.f32() + r * cols, d, cols, target, options.smoothing, weight);
      else if (need)
        std::fill_n(d, cols, 0.0f);
    }
  });
  double total = 0;
  for (const float l : losses) total += l;
  Tensor y = Tensor::full(
      {}, static_cast<float>(options.reduction == Reduction::kMean ? total / static_cast<double>(counted)
                                                                   : total));
  if (need)
    ctx.tape->record(y, [&ctx, to = Key(x), dx](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      each_range(ctx, dx.count(), [&](int64_t i, int64_t e) {
        kernels::cpu().scale(dx.f32() + i, dy.f32()[0], t.buffer.f32() + i, e - i, t.accumulate);
      });
    });
  return y;
}

Tensor mse_loss(Context& ctx, const Tensor& x, const Tensor& target) {
  return mean(ctx, activate(ctx, subtract(ctx, x, target), Activation::kSquare));
}

Tensor bce_loss(Context& ctx, const Tensor& logits, const Tensor& target) {
  // softplus(x) - x * t, the stable form of -t log s(x) - (1 - t) log(1 - s(x))
  return mean(ctx,
              subtract(ctx, activate(ctx, logits, Activation::kSoftplus), multiply(ctx, logits, target)));
}

Tensor kl_divergence(Context& ctx, const Tensor& log_q, const Tensor& target_log_p) {
  Tensor p = Tensor::empty(target_log_p.shape());
  double entropy = 0;
  for (int64_t i = 0; i < p.count(); ++i) {
    p.f32()[i] = std::exp(target_log_p.f32()[i]);
    if (p.f32()[i] > 0.0f) entropy += static_cast<double>(p.f32()[i]) * target_log_p.f32()[i];
  }
  const float rows = static_cast<float>(log_q.count()) / static_cast<float>(log_q.dim(-1));
  const Tensor cross = scale(ctx, sum(ctx, multiply(ctx, log_q, p)), -1.0f / rows);
  return shift(ctx, cross, static_cast<float>(entropy) / rows);
}

}  // namespace makar::ops
