#include "ops/norm.h"

#include "ops/bf16.h"
#include "ops/elementwise.h"

namespace makar::ops {
namespace {

// With `addend`, of the sum of x and addend.
NormedSum norm_bf16(Context& ctx, const Tensor& input, const Tensor& addend, const Tensor& w, const Tensor& b,
                    float eps, float offset, bool rms) {
  Tensor x = cast_to_f32(ctx, input);
  const Tensor sum = addend.defined() ? ctx.empty(x.shape()) : Tensor();
  const int64_t cols = x.dim(-1), rows = cols ? x.count() / cols : 0;
  const Tensor y = ctx.empty(x.shape(), DType::kBF16), stats = ctx.empty({rows, rms ? 1 : 2});
  ctx.device.norm_bf16({rms, ctx.f32(x), ctx.f32(w), ctx.f32(b), ctx.bf16(y), ctx.f32(stats), rows, cols, eps,
                        offset, ctx.bf16(addend), ctx.f32(sum)});
  if (addend.defined()) {
    record_add_bf16(ctx, x, addend, sum);
    x = sum;
  }
  if (!ctx.any_needs(x, w, b)) return {x, y};
  ctx.tape->record(y, [ctx, x, w, to_b = Key(b), stats, rows, cols, offset, rms](const Tensor& dy) {
    const auto target = [&](const Key& key) {
      return ctx.needs(key) ? ctx.tape->target(key) : Tape::Target{};
    };
    const auto dx = target(x), dw = target(w), db = target(to_b);
    // For the layer before the norm, which has a bias in models whose norms have one.
    const Tensor rounded = dx.buffer.defined() ? ctx.empty(x.shape(), DType::kBF16) : Tensor(),
                 sums = rounded.defined() && to_b.id != 0 ? ctx.empty({cols}) : Tensor();
    ctx.device.norm_backward_bf16({rms, ctx.f32(x), ctx.f32(w), ctx.bf16(dy), ctx.f32(stats),
                                   ctx.f32(dx.buffer), ctx.f32(dw.buffer), ctx.f32(db.buffer), rows, cols,
                                   offset, dx.accumulate, dw.accumulate, db.accumulate, ctx.bf16(rounded),
                                   ctx.f32(sums)});
    if (rounded.defined()) ctx.tape->note(dx.buffer, {rounded, sums});
  });
  return {x, y};
}

Tensor norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, float eps, float offset,
            bool rms) {
  const int64_t cols = x.dim(-1), rows = cols ? x.count() / cols : 0;
  check((!w.defined() || w.count() == cols) && (!b.defined() || b.count() == cols),
        "norm: the weights do not have the width of x");
  if (computes_bf16(ctx)) return norm_bf16(ctx, x, {}, w, b, eps, offset, rms).normed;
  Tensor y = ctx.empty(x.shape()), stats = ctx.empty({rows, rms ? 1 : 2});
  ctx.device.norm(
      {rms, ctx.f32(x), ctx.f32(w), ctx.f32(b), ctx.f32(y), ctx.f32(stats), rows, cols, eps, offset});
  if (!ctx.any_needs(x, w, b)) return y;
  ctx.tape->record(y, [ctx, x, w, to_b = Key(b), stats, rows, cols, offset, rms](const Tensor& dy) {
    const auto target = [&](const Key& key) {
      return ctx.needs(key) ? ctx.tape->target(key) : Tape::Target{};
    };
    const auto dx = target(x), dw = target(w), db = target(to_b);
    ctx.device.norm_backward({rms, ctx.f32(x), ctx.f32(w), ctx.f32(dy), ctx.f32(stats), ctx.f32(dx.buffer),
                              ctx.f32(dw.buffer), ctx.f32(db.buffer), rows, cols, offset, dx.accumulate,
                              dw.accumulate, db.accumulate});
  });
  return y;
}

}  // namespace

Tensor layer_norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, float eps) {
  return norm(ctx, x, w, b, eps, 0.0f, false);
}
Tensor rms_norm(Context& ctx, const Tensor& x, const Tensor& w, float eps, float offset) {
  check(w.defined(), "rms_norm: the weight is missing");
  return norm(ctx, x, w, {}, eps, offset, true);
}

NormedSum add_norm(Context& ctx, const Tensor& x, const Tensor& addend, const NormWeights& n) {
  const bool fused =
      any_bf16(ctx, addend) && !any_bf16(ctx, x) && x.shape() == addend.shape() && x.rank() > 0;
  if (!fused) {
    const Tensor sum = add(ctx, x, addend);
    return {sum, norm(ctx, sum, n.w, n.b, n.eps, n.offset, n.rms)};
  }
  check((!n.w.defined() || n.w.count() == x.dim(-1)) && (!n.b.defined() || n.b.count() == x.dim(-1)),
        "norm: the weights do not have the width of x");
  return norm_bf16(ctx, x, addend, n.w, n.b, n.eps, n.offset, n.rms);
}

Tensor batch_norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                  BatchNormState& state) {
  if (any_bf16(ctx, x)) return batch_norm(ctx, cast_to_f32(ctx, x), w, b, eps, state);
  const int64_t cols = x.dim(-1), rows = x.count() / cols;
  check(w.count() == cols && b.count() == cols, "batch_norm: the weights do not have the width of x");
  const bool batch = ctx.training || !state.running_mean.defined();
  check(!batch || rows > 1, "batch_norm needs more than one row for its statistics");
  const Tensor mean = ctx.empty({cols}), rstd = ctx.empty({cols}), y = ctx.empty(x.shape());
  ctx.device.batch_norm({ctx.f32(x), ctx.f32(w), ctx.f32(b), ctx.f32(y), ctx.f32(mean), ctx.f32(rstd),
                         ctx.f32(state.running_mean), ctx.f32(state.running_var), rows, cols, eps,
                         state.momentum, batch});
  if (!ctx.any_needs(x, w, b)) return y;
  ctx.tape->record(y, [ctx, x, w, to_b = Key(b), mean, rstd, rows, cols, batch](const Tensor& dy) {
    const Tensor dx = ctx.empty(x.shape()), dw = ctx.empty(w.shape()), db = ctx.empty(to_b.shape);
    ctx.device.batch_norm_backward({ctx.f32(x), ctx.f32(w), ctx.f32(dy), ctx.f32(mean), ctx.f32(rstd),
                                    ctx.f32(dx), ctx.f32(dw), ctx.f32(db), rows, cols, batch});
    ctx.tape->pass(x, dx);
    ctx.tape->pass(w, dw);
    ctx.tape->pass(to_b, db);
  });
  return y;
}

}  // namespace makar::ops
