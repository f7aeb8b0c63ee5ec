#include "ops/conv.h"

#include "ops/bf16.h"
#include "ops/linear.h"
#include "ops/shape.h"

namespace makar::ops {

Tensor unfold(Context& ctx, const Tensor& x, int64_t kernel, int64_t stride, int64_t padding) {
  if (any_bf16(ctx, x)) return unfold(ctx, widened(ctx, x), kernel, stride, padding);
  check(x.rank() == 4 && kernel > 0 && stride > 0, "unfold takes [batch, channels, height, width]");
  const int64_t batch = x.dim(0), channels = x.dim(1), height = x.dim(2), width = x.dim(3);
  check(height + 2 * padding >= kernel && width + 2 * padding >= kernel,
        "unfold: the image is smaller than the kernel");
  const int64_t out_h = (height + 2 * padding - kernel) / stride + 1,
                out_w = (width + 2 * padding - kernel) / stride + 1;
  Tensor y = ctx.empty({batch * out_h * out_w, channels * kernel * kernel});
  ctx.device.unfold(
      {ctx.f32(x), ctx.f32(y), batch, channels, height, width, kernel, stride, padding, out_h, out_w});
  if (ctx.needs(x))
    ctx.tape->record(y, [=, to = Key(x)](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      if (!t.accumulate) ctx.device.memory().zero(t.buffer.address(), t.buffer.bytes());
      ctx.device.unfold_backward({ctx.f32(dy), ctx.f32(t.buffer), batch, channels, height, width, kernel,
                                  stride, padding, out_h, out_w});
    });
  return y;
}

Tensor conv2d_rows(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, int64_t stride,
                   int64_t padding) {
  check(w.rank() == 4 && w.dim(2) == w.dim(3) && w.dim(1) == x.dim(1),
        "conv2d: the weight is [out, channels, k, k]");
  const Tensor flat = reshape(ctx, w, {w.dim(0), w.dim(1) * w.dim(2) * w.dim(3)});
  return linear(ctx, unfold(ctx, x, w.dim(2), stride, padding), flat, b);
}

}  // namespace makar::ops
