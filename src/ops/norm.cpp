#include "ops/norm.h"

#include <cmath>

#include "kernels/kernels.h"
#include "ops/ranges.h"

namespace makar::ops {
namespace {

using kernels::NormRows;
using kernels::NormRowsBackward;

// Weight gradients are summed in chunks of so many rows, then the chunks in order: threads change no bit.
constexpr int64_t kChunk = 64;

Tensor norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, float eps, float offset,
            bool rms) {
  const int64_t cols = x.dim(-1), rows = cols ? x.count() / cols : 0;
  check((!w.defined() || w.count() == cols) && (!b.defined() || b.count() == cols),
        "norm: the weights have another width");
  const auto& k = kernels::cpu();
  Tensor y = Tensor::empty(x.shape()), stats = Tensor::empty({rows, rms ? 1 : 2});
  const int64_t per_row = stats.dim(1);
  each_rows(ctx, rows, cols, [&](int64_t r0, int64_t r1) {
    const NormRows a{x.f32() + r0 * cols,
                     w.defined() ? w.f32() : nullptr,
                     b.defined() ? b.f32() : nullptr,
                     y.f32() + r0 * cols,
                     stats.f32() + r0 * per_row,
                     r1 - r0,
                     cols,
                     eps,
                     offset};
    rms ? k.rms_norm(a) : k.layer_norm(a);
  });
  if (!ctx.any_needs(x, w, b)) return y;
  ctx.tape->record(
      y, [&ctx, &k, x, w, to_b = Key(b), stats, rows, cols, offset, rms, per_row](const Tensor& dy) {
        const bool need_x = ctx.needs(x), need_w = ctx.needs(w), need_b = ctx.needs(to_b);
        const auto dx = need_x ? ctx.tape->target(x) : Tape::Target{};
        const int64_t chunks = (rows + kChunk - 1) / kChunk;
        Tensor dw = need_w ? Tensor::zeros({chunks, cols}) : Tensor(),
               db = need_b ? Tensor::zeros({chunks, cols}) : Tensor();
        ctx.pool.run(chunks, [&](int64_t c) {
          const int64_t r0 = c * kChunk, n = std::min(kChunk, rows - r0);
          const NormRowsBackward a{x.f32() + r0 * cols,
                                   w.defined() ? w.f32() : nullptr,
                                   dy.f32() + r0 * cols,
                                   stats.f32() + r0 * per_row,
                                   need_x ? dx.buffer.f32() + r0 * cols : nullptr,
                                   need_w ? dw.f32() + c * cols : nullptr,
                                   need_b ? db.f32() + c * cols : nullptr,
                                   n,
                                   cols,
                                   offset,
                                   dx.accumulate};
          rms ? k.rms_norm_backward(a) : k.layer_norm_backward(a);
        });
        const auto gather = [&](const Key& to, const Tensor& parts) {
          const auto t = ctx.tape->target(to);
          if (!t.accumulate) std::fill_n(t.buffer.f32(), cols, 0.0f);
          for (int64_t c = 0; c < chunks; ++c)
            k.add(t.buffer.f32(), parts.f32() + c * cols, t.buffer.f32(), cols);
        };
        if (need_w) gather(w, dw);
        if (need_b) gather(to_b, db);
      });
  return y;
}

}  // namespace

Tensor layer_norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, float eps) {
  return norm(ctx, x, w, b, eps, 0.0f, false);
}
Tensor rms_norm(Context& ctx, const Tensor& x, const Tensor& w, float eps, float offset) {
  check(w.defined(), "rms_norm needs its weight");
  return norm(ctx, x, w, {}, eps, offset, true);
}

Tensor batch_norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                  BatchNormState& state) {
  const int64_t cols = x.dim(-1), rows = x.count() / cols;
  check(w.count() == cols && b.count() == cols, "batch_norm: weights have another width");
  Tensor mean = Tensor::zeros({cols}), rstd = Tensor::zeros({cols}), y = Tensor::empty(x.shape());
  const bool batch = ctx.training || !state.running_mean.defined();
  check(!batch || rows > 1, "batch_norm needs more than one row to take statistics of");
  for (int64_t j = 0; j < cols; ++j) {
    double m = 0, v = 0;
    if (batch) {
      for (int64_t i = 0; i < rows; ++i) m += x.f32()[i * cols + j];
      m /= static_cast<double>(rows);
      for (int64_t i = 0; i < rows; ++i) v += (x.f32()[i * cols + j] - m) * (x.f32()[i * cols + j] - m);
      const auto blend = [&](const Tensor& running, double now) {
        if (running.defined())
          running.f32()[j] =
              (1 - state.momentum) * running.f32()[j] + state.momentum * static_cast<float>(now);
      };
      blend(state.running_mean, m);
      blend(state.running_var, v / static_cast<double>(rows - 1));
      v /= static_cast<double>(rows);
    } else {
      m = state.running_mean.f32()[j], v = state.running_var.f32()[j];
    }
    mean.f32()[j] = static_cast<float>(m);
    rstd.f32()[j] = static_cast<float>(1.0 / std::sqrt(v + eps));
  }
  each_rows(ctx, rows, cols, [&](int64_t r0, int64_t r1) {
    for (int64_t i = r0 * cols; i < r1 * cols; ++i) {
      const int64_t j = i % cols;
      y.f32()[i] = (x.f32()[i] - mean.f32()[j]) * rstd.f32()[j] * w.f32()[j] + b.f32()[j];
    }
  });
  if (!ctx.any_needs(x, w, b)) return y;
  ctx.tape->record(y, [&ctx, x, w, to_b = Key(b), mean, rstd, rows, cols, batch](const Tensor& dy) {
    Tensor dx = Tensor::empty(x.shape()), dw = Tensor::zeros({cols}), db = Tensor::zeros({cols});
    for (int64_t j = 0; j < cols; ++j) {
      double sum = 0, sum_x = 0;
      const float m = mean.f32()[j], r = rstd.f32()[j];
      for (int64_t i = 0; i < rows; ++i) {
        sum += dy.f32()[i * cols + j];
        sum_x += static_cast<double>(dy.f32()[i * cols + j]) * (x.f32()[i * cols + j] - m) * r;
      }
      db.f32()[j] = static_cast<float>(sum), dw.f32()[j] = static_cast<float>(sum_x);
      const double a = batch ? sum / static_cast<double>(rows) : 0,
                   c = batch ? sum_x / static_cast<double>(rows) : 0;
      for (int64_t i = 0; i < rows; ++i) {
        const double xhat = (x.f32()[i * cols + j] - m) * r;
        dx.f32()[i * cols + j] = static_cast<float>(w.f32()[j] * r * (dy.f32()[i * cols + j] - a - xhat * c));
      }
    }
    ctx.tape->pass(x, dx);
    ctx.tape->pass(w, dw.reshape(w.shape()));
    ctx.tape->pass(to_b, db.reshape(to_b.shape));
  });
  return y;
}

}  // namespace makar::ops
