#include "ops/conv.h"

#include "ops/bf16.h"
#include "ops/linear.h"
#include "ops/shape.h"

namespace makar::ops {

namespace {

// Sizes of an unfold of images: the arguments of both kernels after the addresses.
struct Patches {
  int64_t batch, channels, height, width, kernel, stride, padding, out_h, out_w;

  Patches(const Shape& image, int64_t size, int64_t step, int64_t border)
      : batch(image[0]),
        channels(image[1]),
        height(image[2]),
        width(image[3]),
        kernel(size),
        stride(step),
        padding(border),
        out_h((height + 2 * border - size) / step + 1),
        out_w((width + 2 * border - size) / step + 1) {
    check(height + 2 * padding >= kernel && width + 2 * padding >= kernel,
          "unfold: the image is smaller than the kernel");
  }
  Shape rows() const { return {batch * out_h * out_w, channels * kernel * kernel}; }
};

void unfold_into(const Context& ctx, const Tensor& x, const Tensor& y, const Patches& p) {
  ctx.device.unfold({ctx.f32(x), ctx.f32(y), p.batch, p.channels, p.height, p.width, p.kernel, p.stride,
                     p.padding, p.out_h, p.out_w});
}
// Adds to y.
void fold_into(const Context& ctx, const Tensor& x, const Tensor& y, const Patches& p) {
  ctx.device.unfold_backward({ctx.f32(x), ctx.f32(y), p.batch, p.channels, p.height, p.width, p.kernel,
                              p.stride, p.padding, p.out_h, p.out_w});
}

}  // namespace

Tensor unfold(Context& ctx, const Tensor& x, int64_t kernel, int64_t stride, int64_t padding) {
  if (any_bf16(ctx, x)) return unfold(ctx, cast_to_f32(ctx, x), kernel, stride, padding);
  check(x.rank() == 4 && kernel > 0 && stride > 0, "unfold takes [batch, channels, height, width]");
  const Patches p(x.shape(), kernel, stride, padding);
  Tensor y = ctx.empty(p.rows());
  unfold_into(ctx, x, y, p);
  if (ctx.needs(x))
    ctx.tape->record(y, [=, to = Key(x)](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      if (!t.accumulate) ctx.device.memory().zero(t.buffer.address(), t.buffer.bytes());
      fold_into(ctx, dy, t.buffer, p);
    });
  return y;
}

Tensor fold(Context& ctx, const Tensor& patches, const Shape& shape, int64_t kernel, int64_t stride,
            int64_t padding) {
  if (any_bf16(ctx, patches)) return fold(ctx, cast_to_f32(ctx, patches), shape, kernel, stride, padding);
  check(shape.rank() == 4 && kernel > 0 && stride > 0, "fold returns [batch, channels, height, width]");
  const Patches p(shape, kernel, stride, padding);
  check(patches.shape() == p.rows(), "fold: the patches do not match the shape of the images");
  const Tensor y = ctx.zeros(shape);
  fold_into(ctx, patches, y, p);
  if (ctx.needs(patches))
    ctx.tape->record(y, [=, to = Key(patches)](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      if (!t.accumulate) return unfold_into(ctx, dy, t.buffer, p);
      const Tensor back = ctx.empty(p.rows());
      unfold_into(ctx, dy, back, p);
      ctx.device.scale({ctx.f32(back), ctx.f32(t.buffer), back.count(), 1.0f, true});
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
