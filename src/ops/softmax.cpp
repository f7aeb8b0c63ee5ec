#include "ops/softmax.h"

#include "ops/bf16.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar::ops {
namespace {

static_assert(kIgnore == kernels::kIgnoredTarget);

Tensor softmax_rows(Context& ctx, const Tensor& x, bool log) {
  if (any_bf16(ctx, x)) return softmax_rows(ctx, cast_to_f32(ctx, x), log);
  const int64_t cols = x.dim(-1), rows = cols ? x.count() / cols : 0;
  Tensor y = ctx.empty(x.shape());
  ctx.device.softmax({log, ctx.f32(x), ctx.f32(y), rows, cols});
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, to = Key(x), y, rows, cols, log](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      ctx.device.softmax_backward(
          {log, ctx.f32(y), ctx.f32(dy), ctx.f32(t.buffer), rows, cols, t.accumulate});
    });
  return y;
}

}  // namespace

Tensor softmax(Context& ctx, const Tensor& x) { return softmax_rows(ctx, x, false); }
Tensor log_softmax(Context& ctx, const Tensor& x) { return softmax_rows(ctx, x, true); }

int64_t counted_targets(std::span<const int64_t> targets, int64_t classes) {
  int64_t counted = 0;
  for (const int64_t t : targets) {
    check(t == kIgnore || (t >= 0 && t < classes), "cross_entropy: target out of range");
    counted += t != kIgnore;
  }
  return counted;
}

Tensor cross_entropy(Context& ctx, const Tensor& x, std::span<const int64_t> targets,
                     const CrossEntropyOptions& options) {
  if (any_bf16(ctx, x)) return cross_entropy(ctx, cast_to_f32(ctx, x), targets, options);
  const int64_t rows = static_cast<int64_t>(targets.size()), cols = x.dim(-1);
  check(x.count() == rows * cols, "cross_entropy: one target per row");
  const int64_t counted = counted_targets(targets, cols);
  const bool mean = options.reduction == Reduction::kMean, need = ctx.needs(x);
  const Tensor dx = need ? ctx.empty(x.shape()) : Tensor();
  const Tensor losses = ctx.empty({rows}), y = ctx.empty({}), device_targets = ctx.upload(targets);
  ctx.device.cross_entropy({ctx.f32(x), ctx.f32(dx), ctx.i64(device_targets), ctx.f32(losses), rows, cols,
                            options.smoothing, mean ? 1.0f / static_cast<float>(counted) : 1.0f, 0.0f});
  ctx.device.total_loss({ctx.f32(losses), ctx.f32(y), rows, mean ? static_cast<double>(counted) : 1.0});
  if (need)
    ctx.tape->record(y, [ctx, to = Key(x), dx](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      ctx.device.scale_by({ctx.f32(dx), ctx.f32(dy), ctx.f32(t.buffer), dx.count(), t.accumulate});
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
  if (any_bf16(ctx, target_log_p)) return kl_divergence(ctx, log_q, cast_to_f32(ctx, target_log_p));
  const float rows = static_cast<float>(log_q.count()) / static_cast<float>(log_q.dim(-1));
  const Tensor p = ctx.empty(target_log_p.shape()), entropy = ctx.empty({});
  ctx.device.kl_target({ctx.f32(target_log_p), ctx.f32(p), ctx.f32(entropy), p.count(), rows});
  return add(ctx, scale(ctx, sum(ctx, multiply(ctx, log_q, p)), -1.0f / rows), entropy);
}

}  // namespace makar::ops
