#include "ops/conv.h"

#include "ops/linear.h"
#include "ops/ranges.h"
#include "ops/shape.h"

namespace makar::ops {
namespace {

// Calls body(row, column, pixel) for every value of the unfolded matrix that is not padding.
struct Window {
  int64_t batch, channels, height, width, kernel, stride, padding, out_h, out_w;
  int64_t rows() const { return batch * out_h * out_w; }
  int64_t cols() const { return channels * kernel * kernel; }
  template <class F>
  void each(int64_t row, F&& body) const {
    const int64_t n = row / (out_h * out_w), y0 = row / out_w % out_h * stride - padding,
                  x0 = row % out_w * stride - padding;
    for (int64_t c = 0, col = 0; c < channels; ++c)
      for (int64_t i = 0; i < kernel; ++i)
        for (int64_t j = 0; j < kernel; ++j, ++col) {
          const int64_t y = y0 + i, x = x0 + j;
          if (y >= 0 && y < height && x >= 0 && x < width)
            body(col, ((n * channels + c) * height + y) * width + x);
        }
  }
};

}  // namespace

Tensor unfold(Context& ctx, const Tensor& x, int64_t kernel, int64_t stride, int64_t padding) {
  check(x.rank() == 4 && kernel > 0 && stride > 0, "unfold takes [batch, channels, height, width]");
  Window w{x.dim(0), x.dim(1), x.dim(2), x.dim(3), kernel, stride, padding, 0, 0};
  w.out_h = (w.height + 2 * padding - kernel) / stride + 1;
  w.out_w = (w.width + 2 * padding - kernel) / stride + 1;
  check(w.height + 2 * padding >= kernel && w.width + 2 * padding >= kernel,
        "unfold: the image is smaller than the kernel");
  Tensor y = Tensor::zeros({w.rows(), w.cols()});
  each_rows(ctx, w.rows(), w.cols(), [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r)
      w.each(r, [&](int64_t col, int64_t pixel) { y.f32()[r * w.cols() + col] = x.f32()[pixel]; });
  });
  if (ctx.needs(x))
    ctx.tape->record(y, [&ctx, to = Key(x), w](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      if (!t.accumulate) std::fill_n(t.buffer.f32(), t.buffer.count(), 0.0f);
      for (int64_t r = 0; r < w.rows(); ++r)
        w.each(r, [&](int64_t col, int64_t pixel) { t.buffer.f32()[pixel] += dy.f32()[r * w.cols() + col]; });
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
