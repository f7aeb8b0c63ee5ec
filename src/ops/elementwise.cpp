#include "ops/elementwise.h"

#include <cmath>
#include <utility>

#include "base/rng.h"
#include "ops/ranges.h"

namespace makar::ops {
namespace {

const kernels::Table& k() { return kernels::cpu(); }

bool is_suffix(const Shape& a, const Shape& b) {
  if (b.rank() > a.rank()) return false;
  for (int i = 1; i <= b.rank(); ++i)
    if (a[-i] != b[-i]) return false;
  return true;
}

// dy[rows, n] summed over rows into the gradient of a repeated operand, in order.
void sum_rows_into(Context& ctx, const Key& to, const Tensor& dy, float factor) {
  const auto t = ctx.tape->target(to);
  const int64_t n = to.shape.count(), rows = n ? dy.count() / n : 0;
  each_range(ctx, n, [&](int64_t begin, int64_t end) {
    float* out = t.buffer.f32();
    if (!t.accumulate) std::fill(out + begin, out + end, 0.0f);
    for (int64_t r = 0; r < rows; ++r)
      k().scale(dy.f32() + r * n + begin, factor, out + begin, end - begin, true);
  });
}

// The gradient of a term of a sum: factor * dy, for an operand of the same shape or a repeated one.
void pass_term(Context& ctx, const Key& to, const Tensor& dy, float factor) {
  if (!ctx.needs(to)) return;
  if (!(to.shape == dy.shape())) return sum_rows_into(ctx, to, dy, factor);
  if (factor == 1.0f) return ctx.tape->pass(to, dy);
  const auto t = ctx.tape->target(to);
  each_range(ctx, dy.count(), [&](int64_t b, int64_t e) {
    k().scale(dy.f32() + b, factor, t.buffer.f32() + b, e - b, t.accumulate);
  });
}

Tensor sum_of_terms(Context& ctx, const Tensor& a, const Tensor& b, float sign) {
  check(is_suffix(a.shape(), b.shape()),
        "add: " + a.shape().text() + " and " + b.shape().text() + " do not fit");
  Tensor y = Tensor::empty(a.shape());
  const int64_t n = b.count(), rows = n ? a.count() / n : 0;
  const auto body = [&](const float* pa, const float* pb, float* py, int64_t count) {
    if (sign > 0) return k().add(pa, pb, py, count);
    for (int64_t i = 0; i < count; ++i) py[i] = pa[i] - pb[i];
  };
  if (rows == 1) {
    each_range(ctx, n, [&](int64_t i, int64_t e) { body(a.f32() + i, b.f32() + i, y.f32() + i, e - i); });
  } else {
    each_rows(ctx, rows, n, [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r) body(a.f32() + r * n, b.f32(), y.f32() + r * n, n);
    });
  }
  if (ctx.any_needs(a, b))
    ctx.tape->record(y, [&ctx, to_a = Key(a), to_b = Key(b), sign](const Tensor& dy) {
      pass_term(ctx, to_a, dy, 1.0f);
      pass_term(ctx, to_b, dy, sign);
    });
  return y;
}

// y[rows, n] (+)= a[rows, n] * b[n].
void multiply_rows(Context& ctx, const Tensor& a, const Tensor& b, int64_t rows, int64_t n, const Tensor& y,
                   bool accumulate) {
  if (rows == 1)
    return each_range(ctx, n, [&](int64_t i, int64_t e) {
      k().multiply(a.f32() + i, b.f32() + i, y.f32() + i, e - i, accumulate);
    });
  each_rows(ctx, rows, n, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) k().multiply(a.f32() + r * n, b.f32(), y.f32() + r * n, n, accumulate);
  });
}

// A function of one or two tensors of equal shape with a per-element gradient; for the rarer ops.
template <class Value, class Gradient>
Tensor pairwise(Context& ctx, const Tensor& a, const Tensor& b, Value&& value, Gradient&& gradient) {
  check(a.shape() == b.shape(), "elementwise operands differ in shape");
  Tensor y = Tensor::empty(a.shape());
  each_range(ctx, y.count(), [&](int64_t i, int64_t e) {
    for (; i < e; ++i) y.f32()[i] = value(a.f32()[i], b.f32()[i]);
  });
  if (!ctx.any_needs(a, b)) return y;
  ctx.tape->record(y, [&ctx, a, b, gradient](const Tensor& dy) {
    Tensor da = Tensor::empty(a.shape()), db = Tensor::empty(b.shape());
    each_range(ctx, dy.count(), [&](int64_t i, int64_t e) {
      for (; i < e; ++i) {
        const auto [ga, gb] = gradient(a.f32()[i], b.f32()[i]);
        da.f32()[i] = ga * dy.f32()[i];
        db.f32()[i] = gb * dy.f32()[i];
      }
    });
    ctx.tape->pass(a, da);
    ctx.tape->pass(b, db);
  });
  return y;
}

using Pair = std::pair<float, float>;

}  // namespace

Tensor add(Context& ctx, const Tensor& a, const Tensor& b) { return sum_of_terms(ctx, a, b, 1.0f); }
Tensor subtract(Context& ctx, const Tensor& a, const Tensor& b) { return sum_of_terms(ctx, a, b, -1.0f); }

Tensor multiply(Context& ctx, const Tensor& a, const Tensor& b) {
  check(is_suffix(a.shape(), b.shape()), "multiply: the shapes do not fit");
  Tensor y = Tensor::empty(a.shape());
  const int64_t n = b.count(), rows = n ? a.count() / n : 0;
  multiply_rows(ctx, a, b, rows, n, y, false);
  if (!ctx.any_needs(a, b)) return y;
  ctx.tape->record(y, [&ctx, a, b, n, rows](const Tensor& dy) {
    if (ctx.needs(a)) {
      const auto t = ctx.tape->target(a);
      multiply_rows(ctx, dy, b, rows, n, t.buffer, t.accumulate);
    }
    if (ctx.needs(b)) {
      const auto t = ctx.tape->target(b);
      each_range(ctx, n, [&](int64_t i, int64_t e) {
        for (int64_t r = 0; r < rows; ++r)
          k().multiply(dy.f32() + r * n + i, a.f32() + r * n + i, t.buffer.f32() + i, e - i,
                       t.accumulate || r > 0);
      });
    }
  });
  return y;
}

Tensor divide(Context& ctx, const Tensor& a, const Tensor& b) {
  return pairwise(
      ctx, a, b, [](float x, float y) { return x / y; },
      [](float x, float y) {
        return Pair{1.0f / y, -x / (y * y)};
      });
}
Tensor minimum(Context& ctx, const Tensor& a, const Tensor& b) {
  return pairwise(
      ctx, a, b, [](float x, float y) { return y < x ? y : x; },
      [](float x, float y) {
        return y < x ? Pair{0, 1} : Pair{1, 0};
      });
}
Tensor maximum(Context& ctx, const Tensor& a, const Tensor& b) {
  return pairwise(
      ctx, a, b, [](float x, float y) { return y > x ? y : x; },
      [](float x, float y) {
        return y > x ? Pair{0, 1} : Pair{1, 0};
      });
}

Tensor scale(Context& ctx, const Tensor& x, float factor) {
  Tensor y = Tensor::empty(x.shape());
  each_range(ctx, x.count(),
             [&](int64_t i, int64_t e) { k().scale(x.f32() + i, factor, y.f32() + i, e - i, false); });
  if (ctx.needs(x))
    ctx.tape->record(y, [&ctx, to = Key(x), factor](const Tensor& dy) { pass_term(ctx, to, dy, factor); });
  return y;
}

Tensor shift(Context& ctx, const Tensor& x, float constant) {
  Tensor y = Tensor::empty(x.shape());
  for (int64_t i = 0; i < x.count(); ++i) y.f32()[i] = x.f32()[i] + constant;
  if (ctx.needs(x)) ctx.tape->record(y, [&ctx, to = Key(x)](const Tensor& dy) { ctx.tape->pass(to, dy); });
  return y;
}

Tensor activate(Context& ctx, const Tensor& x, Activation kind) {
  const auto& f = k().activation[static_cast<int>(kind)];
  Tensor y = Tensor::empty(x.shape());
  each_range(ctx, x.count(), [&](int64_t i, int64_t e) { f.forward(x.f32() + i, y.f32() + i, e - i); });
  if (ctx.needs(x))
    ctx.tape->record(y, [&ctx, &f, x](const Tensor& dy) {
      const auto t = ctx.tape->target(x);
      each_range(ctx, x.count(), [&](int64_t i, int64_t e) {
        f.backward(x.f32() + i, dy.f32() + i, t.buffer.f32() + i, e - i, t.accumulate);
      });
    });
  return y;
}

Tensor gated(Context& ctx, const Tensor& gate, const Tensor& up, Activation kind) {
  check(gate.shape() == up.shape(), "gated: gate and up differ in shape");
  const auto& f = k().activation[static_cast<int>(kind)];
  Tensor y = Tensor::empty(gate.shape());
  each_range(ctx, y.count(),
             [&](int64_t i, int64_t e) { f.gated(gate.f32() + i, up.f32() + i, y.f32() + i, e - i); });
  if (ctx.any_needs(gate, up))
    ctx.tape->record(y, [&ctx, &f, gate, up](const Tensor& dy) {
      Tensor dgate = Tensor::empty(gate.shape()), dup = Tensor::empty(up.shape());
      each_range(ctx, dy.count(), [&](int64_t i, int64_t e) {
        f.gated_backward(gate.f32() + i, up.f32() + i, dy.f32() + i, dgate.f32() + i, dup.f32() + i, e - i);
      });
      ctx.tape->pass(gate, dgate);
      ctx.tape->pass(up, dup);
    });
  return y;
}

Tensor soft_cap(Context& ctx, const Tensor& x, float cap) {
  return scale(ctx, activate(ctx, scale(ctx, x, 1.0f / cap), Activation::kTanh), cap);
}

Tensor clamp(Context& ctx, const Tensor& x, float low, float high) {
  return pairwise(
      ctx, x, x, [=](float v, float) { return v < low ? low : (v > high ? high : v); },
      [=](float v, float) {
        return Pair{v >= low && v <= high ? 1.0f : 0.0f, 0.0f};
      });
}

Tensor dropout(Context& ctx, const Tensor& x, float rate) {
  if (!ctx.training || rate <= 0.0f) return x;
  const uint64_t stream = ctx.stream++;
  const Rng rng(ctx.seed, Purpose::kDropout, ctx.step);
  const float keep = 1.0f / (1.0f - rate);
  const auto factor = [rng, rate, keep, stream](int64_t i) {
    const uint64_t block = static_cast<uint64_t>(i) / 4;
    const uint32_t draw = rng.bits(stream << 44 | uint64_t{1} << 43 | block)[static_cast<size_t>(i % 4)];
    return static_cast<float>(draw >> 8) * 0x1p-24f < rate ? 0.0f : keep;
  };
  Tensor y = Tensor::empty(x.shape());
  each_range(ctx, x.count(), [&](int64_t i, int64_t e) {
    for (; i < e; ++i) y.f32()[i] = x.f32()[i] * factor(i);
  });
  if (ctx.needs(x))
    ctx.tape->record(y, [&ctx, to = Key(x), factor](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      each_range(ctx, dy.count(), [&](int64_t i, int64_t e) {
        for (; i < e; ++i)
          t.buffer.f32()[i] = dy.f32()[i] * factor(i) + (t.accumulate ? t.buffer.f32()[i] : 0.0f);
      });
    });
  return y;
}

}  // namespace makar::ops
