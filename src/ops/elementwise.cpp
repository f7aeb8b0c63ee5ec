#include "ops/elementwise.h"

#include "ops/bf16.h"

namespace makar::ops {
namespace {

using kernels::PairKind;

bool is_suffix(const Shape& a, const Shape& b) {
  if (b.rank() > a.rank()) return false;
  for (int i = 1; i <= b.rank(); ++i)
    if (a[-i] != b[-i]) return false;
  return true;
}

// Gradient of an addend: factor * dy, for an operand of the same shape or one broadcast over rows.
void pass_term(const Context& ctx, const Key& to, const Tensor& dy, float factor) {
  if (!ctx.needs(to)) return;
  if (factor == 1.0f && to.shape == dy.shape()) return ctx.tape->pass(to, dy);
  const auto t = ctx.tape->target(to);
  if (to.shape == dy.shape())
    return ctx.device.scale({ctx.f32(dy), ctx.f32(t.buffer), dy.count(), factor, t.accumulate});
  const int64_t n = to.shape.count(), rows = n ? dy.count() / n : 0;
  ctx.device.sum_rows({ctx.f32(dy), ctx.f32(t.buffer), rows, n, factor, t.accumulate});
}

// The residual stream (f32) plus a layer's output.
Tensor add_bf16(Context& ctx, const Tensor& a, const Tensor& b) {
  const Tensor y = ctx.empty(a.shape());
  ctx.device.add_bf16({ctx.f32(a), ctx.bf16(b), ctx.f32(y), y.count()});
  record_add_bf16(ctx, a, b, y);
  return y;
}

Tensor sum_of_terms(Context& ctx, const Tensor& a, const Tensor& b, bool subtract) {
  if (any_bf16(ctx, a, b)) {
    if (!any_bf16(ctx, a) && a.shape() == b.shape() && !subtract) return add_bf16(ctx, a, b);
    return sum_of_terms(ctx, cast_to_f32(ctx, a), cast_to_f32(ctx, b), subtract);
  }
  check(is_suffix(a.shape(), b.shape()),
        "add: shape " + b.shape().text() + " is not a suffix of " + a.shape().text());
  Tensor y = ctx.empty(a.shape());
  const int64_t n = b.count(), rows = n ? a.count() / n : 0;
  ctx.device.add({ctx.f32(a), ctx.f32(b), ctx.f32(y), rows, n, subtract});
  if (ctx.any_needs(a, b))
    ctx.tape->record(y, [ctx, to_a = Key(a), to_b = Key(b), subtract](const Tensor& dy) {
      pass_term(ctx, to_a, dy, 1.0f);
      pass_term(ctx, to_b, dy, subtract ? -1.0f : 1.0f);
    });
  return y;
}

// Elementwise function of two tensors of equal shape, with gradients; for less frequent ops.
Tensor pairwise(Context& ctx, const Tensor& a, const Tensor& b, PairKind kind, float low = 0,
                float high = 0) {
  if (any_bf16(ctx, a, b)) {
    const Tensor a_f32 = cast_to_f32(ctx, a);
    return pairwise(ctx, a_f32, a.id() == b.id() ? a_f32 : cast_to_f32(ctx, b), kind, low, high);
  }
  check(a.shape() == b.shape(), "elementwise operands differ in shape");
  Tensor y = ctx.empty(a.shape());
  ctx.device.pair({kind, ctx.f32(a), ctx.f32(b), ctx.f32(y), y.count(), low, high});
  if (!ctx.any_needs(a, b)) return y;
  ctx.tape->record(y, [ctx, a, b, kind, low, high](const Tensor& dy) {
    Tensor da = ctx.empty(a.shape()), db = ctx.empty(b.shape());
    ctx.device.pair_backward(
        {kind, ctx.f32(a), ctx.f32(b), ctx.f32(dy), ctx.f32(da), ctx.f32(db), dy.count(), low, high});
    ctx.tape->pass(a, da);
    ctx.tape->pass(b, db);
  });
  return y;
}

}  // namespace

void record_add_bf16(Context& ctx, const Tensor& a, const Tensor& b, const Tensor& y) {
  if (ctx.any_needs(a, b))
    ctx.tape->record(y, [ctx, to_a = Key(a), to_b = Key(b)](const Tensor& dy) {
      const Tape::Notes notes = ctx.tape->take_notes(dy);
      ctx.tape->pass(to_a, dy);
      if (!ctx.needs(to_b)) return;
      if (notes.rounded.defined()) {
        ctx.tape->pass(to_b, notes.rounded);
        if (notes.column_sums.defined()) ctx.tape->note(notes.rounded, {{}, notes.column_sums});
        return;
      }
      const auto t = ctx.tape->target(to_b);
      ctx.device.convert(
          {ctx.f32(dy), DType::kF32, ctx.bf16(t.buffer), DType::kBF16, dy.count(), nullptr, t.accumulate});
    });
}

Tensor add(Context& ctx, const Tensor& a, const Tensor& b) { return sum_of_terms(ctx, a, b, false); }
Tensor subtract(Context& ctx, const Tensor& a, const Tensor& b) { return sum_of_terms(ctx, a, b, true); }

Tensor multiply(Context& ctx, const Tensor& a, const Tensor& b) {
  if (any_bf16(ctx, a, b)) return multiply(ctx, cast_to_f32(ctx, a), cast_to_f32(ctx, b));
  check(is_suffix(a.shape(), b.shape()), "multiply: the shape of b is not a suffix of that of a");
  Tensor y = ctx.empty(a.shape());
  const int64_t n = b.count(), rows = n ? a.count() / n : 0;
  ctx.device.multiply({ctx.f32(a), ctx.f32(b), ctx.f32(y), rows, n, false});
  if (!ctx.any_needs(a, b)) return y;
  ctx.tape->record(y, [ctx, a, b, n, rows](const Tensor& dy) {
    if (ctx.needs(a)) {
      const auto t = ctx.tape->target(a);
      ctx.device.multiply({ctx.f32(dy), ctx.f32(b), ctx.f32(t.buffer), rows, n, t.accumulate});
    }
    if (ctx.needs(b)) {
      const auto t = ctx.tape->target(b);
      ctx.device.multiply_sum({ctx.f32(dy), ctx.f32(a), ctx.f32(t.buffer), rows, n, t.accumulate});
    }
  });
  return y;
}

Tensor divide(Context& ctx, const Tensor& a, const Tensor& b) {
  return pairwise(ctx, a, b, PairKind::kDivide);
}
Tensor minimum(Context& ctx, const Tensor& a, const Tensor& b) {
  return pairwise(ctx, a, b, PairKind::kMinimum);
}
Tensor maximum(Context& ctx, const Tensor& a, const Tensor& b) {
  return pairwise(ctx, a, b, PairKind::kMaximum);
}
Tensor clamp(Context& ctx, const Tensor& x, float low, float high) {
  return pairwise(ctx, x, x, PairKind::kClamp, low, high);
}

Tensor scale(Context& ctx, const Tensor& x, float factor) {
  if (any_bf16(ctx, x)) return scale(ctx, cast_to_f32(ctx, x), factor);
  Tensor y = ctx.empty(x.shape());
  ctx.device.scale({ctx.f32(x), ctx.f32(y), x.count(), factor, false});
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, to = Key(x), factor](const Tensor& dy) { pass_term(ctx, to, dy, factor); });
  return y;
}

Tensor shift(Context& ctx, const Tensor& x, float constant) {
  if (any_bf16(ctx, x)) return shift(ctx, cast_to_f32(ctx, x), constant);
  Tensor y = ctx.empty(x.shape());
  ctx.device.shift({ctx.f32(x), ctx.f32(y), x.count(), constant});
  if (ctx.needs(x)) ctx.tape->record(y, [ctx, to = Key(x)](const Tensor& dy) { ctx.tape->pass(to, dy); });
  return y;
}

namespace {

Tensor activate_bf16(Context& ctx, const Tensor& x, Activation kind) {
  const Tensor y = ctx.empty(x.shape(), DType::kBF16);
  ctx.device.activate_bf16({kind, ctx.bf16(x), ctx.bf16(y), x.count()});
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, kind, x](const Tensor& dy) {
      const auto t = ctx.tape->target(x);
      if (x.count() == 0) return;
      const int64_t cols = x.rank() > 0 ? x.dim(-1) : 1;
      const Tensor sums = ctx.empty({cols});  // for the bias of the layer that computed x
      ctx.device.activate_backward_bf16(
          {{kind, ctx.bf16(x), ctx.bf16(dy), ctx.bf16(t.buffer), x.count(), t.accumulate},
           cols,
           ctx.f32(sums)});
      ctx.tape->note(t.buffer, {{}, sums});
    });
  return y;
}

Tensor gated_bf16(Context& ctx, const Tensor& gate, const Tensor& up, Activation kind) {
  const Tensor y = ctx.empty(gate.shape(), DType::kBF16);
  ctx.device.gated_bf16({kind, ctx.bf16(gate), ctx.bf16(up), ctx.bf16(y), y.count()});
  if (ctx.any_needs(gate, up))
    ctx.tape->record(y, [ctx, kind, gate, up](const Tensor& dy) {
      const Tensor dgate = ctx.empty(gate.shape(), DType::kBF16), dup = ctx.empty(up.shape(), DType::kBF16);
      ctx.device.gated_backward_bf16(
          {kind, ctx.bf16(gate), ctx.bf16(up), ctx.bf16(dy), ctx.bf16(dgate), ctx.bf16(dup), dy.count()});
      ctx.tape->pass(gate, dgate);
      ctx.tape->pass(up, dup);
    });
  return y;
}

}  // namespace

Tensor activate(Context& ctx, const Tensor& x, Activation kind) {
  if (any_bf16(ctx, x)) return activate_bf16(ctx, x, kind);
  Tensor y = ctx.empty(x.shape());
  ctx.device.activate({kind, ctx.f32(x), ctx.f32(y), x.count()});
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, kind, x](const Tensor& dy) {
      const auto t = ctx.tape->target(x);
      ctx.device.activate_backward(
          {kind, ctx.f32(x), ctx.f32(dy), ctx.f32(t.buffer), x.count(), t.accumulate});
    });
  return y;
}

Tensor gated(Context& ctx, const Tensor& gate, const Tensor& up, Activation kind) {
  check(gate.shape() == up.shape(), "gated: gate and up differ in shape");
  if (any_bf16(ctx, gate, up)) return gated_bf16(ctx, cast_to_bf16(ctx, gate), cast_to_bf16(ctx, up), kind);
  Tensor y = ctx.empty(gate.shape());
  ctx.device.gated({kind, ctx.f32(gate), ctx.f32(up), ctx.f32(y), y.count()});
  if (ctx.any_needs(gate, up))
    ctx.tape->record(y, [ctx, kind, gate, up](const Tensor& dy) {
      Tensor dgate = ctx.empty(gate.shape()), dup = ctx.empty(up.shape());
      ctx.device.gated_backward(
          {kind, ctx.f32(gate), ctx.f32(up), ctx.f32(dy), ctx.f32(dgate), ctx.f32(dup), dy.count()});
      ctx.tape->pass(gate, dgate);
      ctx.tape->pass(up, dup);
    });
  return y;
}

Tensor soft_cap(Context& ctx, const Tensor& x, float cap) {
  return scale(ctx, activate(ctx, scale(ctx, x, 1.0f / cap), Activation::kTanh), cap);
}

Tensor dropout(Context& ctx, const Tensor& x, float rate) {
  if (!ctx.training || rate <= 0.0f) return x;
  if (any_bf16(ctx, x)) return dropout(ctx, cast_to_f32(ctx, x), rate);
  kernels::Dropout draw{nullptr, nullptr, x.count(), rate, ctx.seed, ctx.step, ctx.stream++, false};
  Tensor y = ctx.empty(x.shape());
  draw.x = ctx.f32(x), draw.y = ctx.f32(y);
  ctx.device.dropout(draw);
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, to = Key(x), draw](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      if (!t.accumulate) ctx.device.memory().zero(t.buffer.address(), t.buffer.bytes());
      kernels::Dropout backward_draw = draw;
      backward_draw.x = ctx.f32(dy), backward_draw.y = ctx.f32(t.buffer), backward_draw.accumulate = true;
      ctx.device.dropout(backward_draw);
    });
  return y;
}

}  // namespace makar::ops
