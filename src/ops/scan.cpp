#include "ops/scan.h"

#include "ops/bf16.h"
#include "ops/elementwise.h"

namespace makar::ops {
namespace {

const SequenceRows* rows_of(const Context& ctx, const Tensor& sequences) {
  return reinterpret_cast<const SequenceRows*>(ctx.address(sequences));
}

kernels::PagedState state_of(const Context& ctx, const AttentionBatch& batch, int64_t offset) {
  return {reinterpret_cast<std::byte* const*>(ctx.address(batch.pages)), offset};
}

// Adds the partial gradients, one per sequence, in order; later micro-batches continue the sum.
void pass_sum(const Context& ctx, const Tensor& to, const Tensor& parts) {
  if (!ctx.needs(to)) return;
  const auto target = ctx.tape->target(to);
  ctx.device.column_sums(
      {ctx.f32(parts), ctx.f32(target.buffer), parts.dim(0), parts.dim(1), target.accumulate});
}

}  // namespace

Tensor short_conv(Context& ctx, const Tensor& input, const Tensor& w, const Tensor& b,
                  const AttentionBatch& batch, int64_t state_offset) {
  const Tensor x = cast_to_f32(ctx, input);
  const int64_t channels = x.dim(1), taps = w.count() / channels, count = batch.sequences.dim(0);
  check(w.dim(0) == channels && taps >= 1 && (!b.defined() || b.count() == channels),
        "short_conv: shapes disagree");
  Tensor y = ctx.empty(x.shape());
  ctx.device.short_conv({rows_of(ctx, batch.sequences), count, ctx.f32(x), ctx.f32(w), ctx.f32(b), ctx.f32(y),
                         channels, taps, state_of(ctx, batch, state_offset)});
  if (ctx.any_needs(x, w, b)) {
    check(!batch.pages.defined(), "short_conv has no gradient with a cache");
    ctx.tape->record(y, [ctx, x, w, to_b = Key(b), has_b = b.defined(), sequences = batch.sequences, count,
                         channels, taps](const Tensor& dy) {
      Tensor dx = ctx.empty(x.shape()), dw = ctx.empty(w.shape()),
             db = has_b ? ctx.empty({channels}) : Tensor();
      ctx.device.short_conv_backward({rows_of(ctx, sequences), count, ctx.f32(x), ctx.f32(w), ctx.f32(dy),
                                      ctx.f32(dx), ctx.f32(dw), ctx.f32(db), channels, taps});
      if (ctx.needs(x)) ctx.tape->pass(x, dx);
      if (ctx.needs(w)) ctx.tape->pass(w, dw);
      if (has_b && ctx.needs(to_b)) ctx.tape->pass(to_b, db);
    });
  }
  return y;
}

Tensor selective_scan(Context& ctx, const ScanInputs& inputs, int64_t groups, const AttentionBatch& batch,
                      int64_t state_offset) {
  ScanInputs in = inputs;
  if (!in.rates.defined()) in.rates = scan_rates(ctx, in.a_log);
  for (Tensor* t : {&in.x, &in.dt, &in.b, &in.c}) *t = cast_to_f32(ctx, *t);
  const int64_t tokens = in.x.dim(0), heads = in.dt.dim(1), dim = in.x.dim(1) / heads,
                states = in.b.dim(1) / groups, columns = in.a_log.count() / heads,
                count = batch.sequences.dim(0);
  check(in.x.dim(1) == heads * dim && heads % groups == 0 && in.b.dim(1) == groups * states &&
            in.c.shape() == in.b.shape() && in.dt.dim(0) == tokens && in.b.dim(0) == tokens &&
            in.a_log.count() == heads * columns && in.rates.count() == heads * columns &&
            (columns == states || columns == 1) && in.d.count() == heads,
        "selective_scan: shapes disagree");
  Tensor y = ctx.empty(in.x.shape());
  const auto arguments = [in, count, heads, dim, groups, states, columns](const Context& c,
                                                                          const Tensor& sequences) {
    return kernels::SelectiveScan{
        rows_of(c, sequences), count,   c.f32(in.x), c.f32(in.dt), c.f32(in.rates), c.f32(in.b), c.f32(in.c),
        c.f32(in.d),           nullptr, heads,       dim,          groups,          states,      columns,
        {nullptr, 0}};
  };
  kernels::SelectiveScan forward = arguments(ctx, batch.sequences);
  forward.y = ctx.f32(y);
  forward.state = state_of(ctx, batch, state_offset);
  ctx.device.selective_scan(forward);
  if (ctx.any_needs(in.x, in.dt, in.a_log, in.b, in.c, in.d)) {
    check(!batch.pages.defined(), "selective_scan has no gradient with a cache");
    ctx.tape->record(y, [ctx, in, arguments, sequences = batch.sequences, count, heads,
                         columns](const Tensor& dy) {
      Tensor dx = ctx.zeros(in.x.shape()), ddt = ctx.zeros(in.dt.shape()), db = ctx.zeros(in.b.shape()),
             dc = ctx.zeros(in.c.shape()), da = ctx.zeros({count, heads * columns}),
             dd = ctx.zeros({count, heads});
      ctx.device.selective_scan_backward({arguments(ctx, sequences), ctx.f32(dy), ctx.f32(dx), ctx.f32(ddt),
                                          ctx.f32(db), ctx.f32(dc), ctx.f32(da), ctx.f32(dd)});
      if (ctx.needs(in.x)) ctx.tape->pass(in.x, dx);
      if (ctx.needs(in.dt)) ctx.tape->pass(in.dt, ddt);
      if (ctx.needs(in.b)) ctx.tape->pass(in.b, db);
      if (ctx.needs(in.c)) ctx.tape->pass(in.c, dc);
      pass_sum(ctx, in.a_log, da);
      pass_sum(ctx, in.d, dd);
    });
  }
  return y;
}

Tensor scan_rates(Context& ctx, const Tensor& a_log) {
  Context no_tape{ctx.device};
  return scale(no_tape, activate(no_tape, a_log, Activation::kExp), -1.0f);
}

Tensor softplus(Context& ctx, const Tensor& x) {
  return activate(ctx, cast_to_f32(ctx, x), Activation::kSoftplus);
}

}  // namespace makar::ops
