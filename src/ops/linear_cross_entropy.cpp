// Cross-entropy of a linear layer's output, one block of rows at a time: the full logits are never in memory,
// and their gradient overwrites them in place.
#include <algorithm>

#include "ops/bf16.h"
#include "ops/linear.h"
#include "ops/softmax.h"

namespace makar::ops {

Tensor linear_cross_entropy(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b,
                            std::span<const int64_t> targets, const CrossEntropyOptions& options) {
  using kernels::Operand;
  if (computes_bf16(ctx) && (w.dtype() == DType::kF32 || w.dtype() == DType::kBF16))
    return linear_cross_entropy_bf16(ctx, x, w, b, targets, options);
  if (any_bf16(ctx, x)) return linear_cross_entropy(ctx, cast_to_f32(ctx, x), w, b, targets, options);
  const int64_t width = x.dim(-1), rows = static_cast<int64_t>(targets.size()), classes = w.dim(0);
  check(x.count() == rows * width && w.dim(1) == width, "linear_cross_entropy: shapes disagree");
  check(rows > 0 && classes > 0 && (!b.defined() || b.count() == classes),
        "linear_cross_entropy: shapes disagree");
  const int64_t counted = counted_targets(targets, classes);
  const bool mean = options.reduction == Reduction::kMean;
  const float weight = mean ? 1.0f / static_cast<float>(counted) : 1.0f;
  const bool need_x = ctx.needs(x), need_w = ctx.needs(w), need_b = ctx.needs(b),
             need = need_x || need_w || need_b;
  const Tensor dx = need_x ? ctx.empty(x.shape()) : Tensor(), dw = need_w ? ctx.empty(w.shape()) : Tensor(),
               db = need_b ? ctx.empty(b.shape()) : Tensor();
  const int64_t step = std::clamp<int64_t>(options.max_logits / classes, 1, rows);
  const Tensor logits = ctx.empty({step, classes}), losses = ctx.empty({rows}), y = ctx.empty({}),
               device_targets = ctx.upload(targets);
  Device& device = ctx.device;
  const Operand weights{ctx.address(w), w.dtype(), width, 1};
  const auto packed = is_block(w.dtype()) ? device.pack(weights, classes, width) : nullptr;
  for (int64_t r0 = 0; r0 < rows; r0 += step) {
    const int64_t n = std::min(step, rows - r0);
    const float* part = ctx.f32(x) + r0 * width;
    const kernels::GemmOutput to{ctx.f32(logits), classes, false, ctx.f32(b)};
    if (packed) {
      const kernels::PackedProduct product{packed.get(), to};
      device.gemm_packed({n, {part, DType::kF32, width, 1}, &product, 1});
    } else {
      device.gemm({n, classes, width, {part, DType::kF32, width, 1}, weights, to});
    }
    device.cross_entropy({ctx.f32(logits), need ? ctx.f32(logits) : nullptr, ctx.i64(device_targets) + r0,
                          ctx.f32(losses) + r0, n, classes, options.smoothing, weight, options.soft_cap});
    if (need_w)
      device.gemm({classes,
                   width,
                   n,
                   {ctx.f32(logits), DType::kF32, 1, classes},
                   {part, DType::kF32, 1, width},
                   {ctx.f32(dw), width, r0 > 0}});
    if (need_b) device.column_sums({ctx.f32(logits), ctx.f32(db), n, classes, r0 > 0});
    if (need_x) input_gradient(device, n, ctx.f32(logits), w, {ctx.f32(dx) + r0 * width, width});
  }
  device.total_loss({ctx.f32(losses), ctx.f32(y), rows, mean ? static_cast<double>(counted) : 1.0});
  if (need)
    ctx.tape->record(y, [ctx, to_x = Key(x), to_w = Key(w), to_b = Key(b), dx, dw, db](const Tensor& dy) {
      const auto pass = [&](const Key& to, const Tensor& d) {
        if (!d.defined()) return;
        ctx.device.scale_by({ctx.f32(d), ctx.f32(dy), ctx.f32(d), d.count(), false});
        ctx.tape->pass(to, d);
      };
      pass(to_x, dx);
      pass(to_w, dw);
      pass(to_b, db);
    });
  return y;
}

}  // namespace makar::ops
