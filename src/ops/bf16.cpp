#include "ops/bf16.h"

namespace makar::ops {
namespace {

Tensor cast(Context& ctx, const Tensor& x, DType type) {
  if (x.dtype() == type) return x;
  check(x.dtype() == DType::kF32 || x.dtype() == DType::kBF16, "expected an f32 or bf16 tensor");
  const Tensor y = ctx.empty(x.shape(), type);
  ctx.device.convert({ctx.address(x), x.dtype(), ctx.address(y), type, x.count(), nullptr, false});
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, to = Key(x), type](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      ctx.device.convert(
          {ctx.address(dy), type, ctx.address(t.buffer), to.type, dy.count(), nullptr, t.accumulate});
    });
  return y;
}

}  // namespace

Tensor cast_to_f32(Context& ctx, const Tensor& x) { return any_bf16(ctx, x) ? cast(ctx, x, DType::kF32) : x; }
Tensor cast_to_bf16(Context& ctx, const Tensor& x) { return cast(ctx, x, DType::kBF16); }

bool attends_bf16(const Context& ctx, const AttentionBatch& batch, const AttentionOptions& o) {
  return !batch.bias.defined() && o.scale > 0.0f && o.soft_cap == 0.0f &&
         (o.dropout == 0.0f || !ctx.training) && o.head_dim % 8 == 0 &&
         o.head_dim <= kernels::kMaxBf16HeadDim;
}

Tensor attend_bf16(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionBatch& batch, const AttentionOptions& o) {
  const kernels::AttentionShape shape = attention_shape(ctx, batch, o);
  int64_t q_rows = 0, kv_rows = 0;
  for (const SequenceRows& s : batch.rows) q_rows += s.q_rows, kv_rows += s.kv_rows;
  // Rows that belong to no sequence are zero.
  const bool covers_all_rows = q_rows == q.dim(0) && kv_rows == k.dim(0);
  const auto make = [covers_all_rows](const Context& c, const Shape& size) {
    return covers_all_rows ? c.empty(size, DType::kBF16) : c.zeros(size, DType::kBF16);
  };
  const Tensor out = make(ctx, q.shape()), lse = ctx.empty({q.dim(0), o.heads});
  ctx.device.attention_bf16({shape, ctx.bf16(q), ctx.bf16(k), ctx.bf16(v), ctx.bf16(out), ctx.f32(lse)});
  if (ctx.any_needs(q, k, v))
    ctx.tape->record(out, [ctx, batch, shape, q, k, v, out, lse, make](const Tensor& dy) {
      const Tensor dq = make(ctx, q.shape()), dk = make(ctx, k.shape()), dv = make(ctx, v.shape());
      ctx.device.attention_backward_bf16({shape, ctx.bf16(q), ctx.bf16(k), ctx.bf16(v), ctx.bf16(out),
                                          ctx.f32(lse), ctx.bf16(dy), ctx.bf16(dq), ctx.bf16(dk),
                                          ctx.bf16(dv), q.dim(0)});
      ctx.tape->pass(q, dq);
      ctx.tape->pass(k, dk);
      ctx.tape->pass(v, dv);
    });
  return out;
}

}  // namespace makar::ops
