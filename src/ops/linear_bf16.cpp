// Matrix products in bf16: activations and a rounded copy of the weights are multiplied, sums are f32, and
// the gradients of the weights are f32.
#include <algorithm>

#include "ops/bf16.h"

namespace makar::ops {
namespace {

using kernels::Bf16;
using kernels::Operand;

Operand along_columns(const Bf16* x, int64_t stride) { return {x, DType::kBF16, stride, 1}; }
Operand along_rows(const Bf16* x, int64_t stride) { return {x, DType::kBF16, 1, stride}; }

// x rounded to bf16 and padded with zeros to `count` values. No gradient.
Tensor round_to_bf16(const Context& ctx, const Tensor& x, int64_t count) {
  if (!x.defined() || (x.dtype() == DType::kBF16 && x.count() == count)) return x;
  const Tensor y = x.count() == count ? ctx.empty({count}, DType::kBF16) : ctx.zeros({count}, DType::kBF16);
  ctx.device.convert({ctx.address(x), x.dtype(), ctx.address(y), DType::kBF16, x.count(), nullptr, false});
  return y;
}

// The weights and the bias, which may be absent, of a layer.
std::pair<Tensor, Tensor> round_layer(const Context& ctx, const Tensor& w, const Tensor& b) {
  const bool both_f32 = b.defined() && w.dtype() == DType::kF32 && b.dtype() == DType::kF32;
  if (!both_f32)
    return {round_to_bf16(ctx, w, w.count()), round_to_bf16(ctx, b, b.defined() ? b.count() : 0)};
  const Tensor weights = ctx.empty({w.count()}, DType::kBF16), bias = ctx.empty({b.count()}, DType::kBF16);
  ctx.device.round_layer_bf16(
      {ctx.f32(w), ctx.f32(b), ctx.bf16(weights), ctx.bf16(bias), w.count(), b.count()});
  return {weights, bias};
}

}  // namespace

Tensor linear_bf16(Context& ctx, const Tensor& input, const Tensor& w, const Tensor& b) {
  const Tensor x = cast_to_bf16(ctx, input);
  const int64_t in = x.dim(-1), m = in ? x.count() / in : 0, out = w.dim(0);
  Shape shape = x.shape();
  shape[-1] = out;
  const Tensor y = ctx.empty(shape, DType::kBF16);
  const auto [weights, bias] = round_layer(ctx, w, b);
  ctx.device.product_bf16({m, out, in, along_columns(ctx.bf16(x), in), along_columns(ctx.bf16(weights), in),
                           ctx.bf16(y), DType::kBF16, out, false, ctx.bf16(bias)});
  if (!ctx.any_needs(x, w, b)) return y;
  const bool need_x = ctx.needs(x), need_w = ctx.needs(w), need_b = ctx.needs(b);
  check(!need_w || w.dtype() == DType::kF32, "only f32 weights can be trained");
  const Tensor saved_x = need_w ? x : Tensor(), saved_weights = need_x ? weights : Tensor();
  ctx.tape->record(y, [ctx, to_x = Key(x), to_w = Key(w), to_b = Key(b), saved_x, saved_weights, m, in, out,
                       need_x, need_w, need_b](const Tensor& dy) {
    const Bf16* d = ctx.bf16(dy);
    if (need_w) {  // dW[out, in] = dY^T X
      const auto t = ctx.tape->target(to_w);
      ctx.device.product_bf16({out, in, m, along_rows(d, out), along_rows(ctx.bf16(saved_x), in),
                               ctx.f32(t.buffer), DType::kF32, in, t.accumulate, nullptr});
    }
    if (need_b) {
      const Tensor sums = ctx.tape->take_notes(dy).column_sums;
      const auto t = ctx.tape->target(to_b);
      if (sums.defined() && !t.accumulate)  // the bits of column_sums_bf16
        ctx.device.memory().copy(ctx.address(t.buffer), ctx.address(sums), t.buffer.bytes());
      else
        ctx.device.column_sums_bf16({d, ctx.f32(t.buffer), m, out, t.accumulate});
    }
    if (need_x) {  // dX[m, in] = dY W
      const auto t = ctx.tape->target(to_x);
      ctx.device.product_bf16({m, in, out, along_columns(d, out), along_rows(ctx.bf16(saved_weights), in),
                               ctx.bf16(t.buffer), DType::kBF16, in, t.accumulate, nullptr});
    }
  });
  return y;
}

Tensor linear_cross_entropy_bf16(Context& ctx, const Tensor& input, const Tensor& w, const Tensor& b,
                                 std::span<const int64_t> targets, const CrossEntropyOptions& options) {
  const Tensor x = cast_to_bf16(ctx, input);
  const int64_t width = x.dim(-1), rows = static_cast<int64_t>(targets.size()), classes = w.dim(0);
  check(x.count() == rows * width && w.dim(1) == width && rows > 0 && classes > 0 &&
            (!b.defined() || b.count() == classes),
        "linear_cross_entropy: shapes disagree");
  const int64_t counted = counted_targets(targets, classes);
  const bool mean = options.reduction == Reduction::kMean;
  const float weight = mean ? 1.0f / static_cast<float>(counted) : 1.0f;
  const bool need_x = ctx.needs(x), need_w = ctx.needs(w), need_b = ctx.needs(b);
  const Tensor dx = need_x ? ctx.empty(x.shape(), DType::kBF16) : Tensor(),
               db = need_b ? ctx.empty(b.shape()) : Tensor();
  // Rows of logits are padded to multiples of 64. A block has 32 times as many logits as in f32, so that the
  // products have enough rows.
  constexpr int64_t kPadding = 64, kMaxRows = 8192, kLogitsFactor = 32;
  const int64_t stride = (classes + kPadding - 1) / kPadding * kPadding;
  const int64_t step =
      std::clamp<int64_t>(options.max_logits * kLogitsFactor / stride, 1, std::min(kMaxRows, rows));
  const Tensor logits = ctx.empty({step, stride}, DType::kBF16), losses = ctx.empty({rows}),
               y = ctx.empty({}), device_targets = ctx.upload(targets);
  const Tensor weights = round_to_bf16(ctx, w, stride * width), bias = round_to_bf16(ctx, b, stride);
  // Gradients for the padding are computed too.
  const Tensor dw = need_w ? ctx.empty({stride, width}).slice(0, classes) : Tensor();
  const Tensor padded_db = need_b ? ctx.empty({stride}) : Tensor();
  Device& device = ctx.device;
  Bf16* block = ctx.bf16(logits);
  for (int64_t r0 = 0; r0 < rows; r0 += step) {
    const int64_t n = std::min(step, rows - r0);
    const Bf16* part = ctx.bf16(x) + r0 * width;
    device.product_bf16({n, stride, width, along_columns(part, width),
                         along_columns(ctx.bf16(weights), width), block, DType::kBF16, stride, false,
                         ctx.bf16(bias)});
    device.cross_entropy_bf16({block, ctx.i64(device_targets) + r0, ctx.f32(losses) + r0, n, classes, stride,
                               options.smoothing, weight, options.soft_cap, need_x || need_w || need_b});
    if (need_w)
      device.product_bf16({stride, width, n, along_rows(block, stride), along_rows(part, width), ctx.f32(dw),
                           DType::kF32, width, r0 > 0, nullptr});
    if (need_b) device.column_sums_bf16({block, ctx.f32(padded_db), n, stride, r0 > 0});
    if (need_x)
      device.product_bf16({n, width, stride, along_columns(block, stride),
                           along_rows(ctx.bf16(weights), width), ctx.bf16(dx) + r0 * width, DType::kBF16,
                           width, false, nullptr});
  }
  device.sum({ctx.f32(losses), ctx.f32(y), rows, mean ? 1.0 / static_cast<double>(counted) : 1.0});
  if (need_b) device.memory().copy(ctx.address(db), ctx.address(padded_db), db.bytes());
  if (need_x || need_w || need_b)
    ctx.tape->record(y, [ctx, to_x = Key(x), to_w = Key(w), to_b = Key(b), dx, dw, db](const Tensor& dy) {
      const auto pass = [&](const Key& to, const Tensor& d) {
        if (!d.defined()) return;
        ctx.device.convert(
            {ctx.address(d), d.dtype(), ctx.address(d), d.dtype(), d.count(), ctx.f32(dy), false});
        ctx.tape->give(to, d);
      };
      pass(to_x, dx);
      pass(to_w, dw);
      pass(to_b, db);
    });
  return y;
}

}  // namespace makar::ops
