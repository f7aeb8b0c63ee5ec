#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "ops/bf16.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar::ops {

int64_t t5_bucket(int64_t distance, bool bidirectional, int64_t buckets, int64_t max_distance) {
  int64_t bucket = 0, n = -distance;  // n: distance back to the key
  if (bidirectional) {
    buckets /= 2;
    if (distance > 0) bucket = buckets;
    n = std::abs(distance);
  } else {
    n = std::max<int64_t>(n, 0);
  }
  const int64_t exact = buckets / 2;
  if (n < exact) return bucket + n;
  // In f32, with the reference's operation order: at powers of two, rounding decides the bucket.
  const float ratio =
      std::log(static_cast<float>(n) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const int64_t large = exact + static_cast<int64_t>(ratio * static_cast<float>(buckets - exact));
  return bucket + std::min(large, buckets - 1);
}

namespace {

float alibi(const DistanceBias& bias, int64_t head, int64_t at) {
  const float slope = bias.slopes[static_cast<size_t>(head)];
  if (!bias.rounded_by_key) return slope * static_cast<float>(at) * bias.factor;
  const auto rounded = [](float v) { return from_bf16(to_bf16(v)); };
  return rounded(rounded(slope) * rounded(static_cast<float>(at))) * bias.factor;
}

const SequenceRows* sequences_of(const Context& ctx, const AttentionBatch& batch) {
  return reinterpret_cast<const SequenceRows*>(ctx.address(batch.sequences));
}

struct AttentionResult {
  Tensor out, lse;
  Tensor key_share;  // with sink logits: [tokens, heads], the keys' share of the softmax denominator
};
// Adds one sink logit per head to the softmax denominators of `out` and `lse`, which were computed without
// it. This scales each row. The gradients of q, k and v follow from the new `out` and `lse` as without sinks.
AttentionResult apply_sink_logits(Context& ctx, const Tensor& out, const Tensor& lse,
                                  const Tensor& sink_logits) {
  Context no_tape{ctx.device};
  const int64_t rows = lse.dim(0), heads = lse.dim(1), dim = out.dim(1) / heads;
  const Tensor log_key_share =
      activate(no_tape, subtract(no_tape, lse, sink_logits), Activation::kLogSigmoid);
  const Tensor key_share = activate(no_tape, log_key_share, Activation::kExp);
  const Tensor scaled =
      scale_rows(no_tape, out.reshape({rows * heads, dim}), key_share.reshape({rows * heads, 1}));
  return {scaled.reshape(out.shape()), subtract(no_tape, lse, log_key_share), key_share};
}

// d sink = -(its weight) * (dy . out), summed over rows.
void sink_logits_backward(const Context& ctx, const Tensor& sink_logits, const AttentionResult& result,
                          const Tensor& dy) {
  Context no_tape{ctx.device};
  const int64_t rows = result.key_share.dim(0), heads = result.key_share.dim(1), dim = dy.dim(1) / heads;
  const Tensor dots = ctx.empty({rows, heads}), dsink_logits = ctx.empty({heads});
  ctx.device.row_dots({ctx.f32(dy), ctx.f32(result.out), ctx.f32(dots), rows * heads, dim, false});
  const Tensor weight = shift(no_tape, result.key_share, -1.0f);  // minus the sink's weight
  ctx.device.multiply_sum({ctx.f32(weight), ctx.f32(dots), ctx.f32(dsink_logits), rows, heads, false});
  ctx.tape->pass(sink_logits, dsink_logits);
}

// Zeros, written by all threads of a CPU.
Tensor zero_gradient(const Context& ctx, const Shape& shape) {
  if (!ctx.device.memory().is_host()) return ctx.zeros(shape);
  const Tensor t = ctx.empty(shape);
  ctx.device.fill({ctx.f32(t), t.count(), 0.0f});
  return t;
}

// `shape`: from the forward pass; the batch keeps its addresses alive.
void backward(const Context& ctx, const AttentionBatch& batch, const kernels::AttentionShape& shape,
              const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse,
              const Tensor& dy) {
  const Tensor dq = zero_gradient(ctx, q.shape()), dk = zero_gradient(ctx, k.shape()),
               dv = zero_gradient(ctx, v.shape());
  const bool need_bias = ctx.needs(batch.bias_table);
  const int64_t width = 2 * batch.bias_span + 1;
  const Tensor dbias = need_bias ? ctx.zeros({shape.count, shape.heads, width}) : Tensor();
  ctx.device.attention_backward({shape, ctx.f32(q), ctx.f32(k), ctx.f32(v), ctx.f32(out), ctx.f32(lse),
                                 ctx.f32(dy), ctx.f32(dq), ctx.f32(dk), ctx.f32(dv), ctx.f32(dbias)});
  ctx.tape->pass(q, dq);
  ctx.tape->pass(k, dk);
  ctx.tape->pass(v, dv);
  if (!need_bias) return;
  const Tensor dtable = ctx.zeros(batch.bias_table.shape());
  ctx.device.bias_from_table_backward(
      {ctx.f32(dbias), ctx.i64(batch.bias_bucket), ctx.f32(dtable), shape.count, shape.heads, width});
  ctx.tape->pass(batch.bias_table, dtable);
}

}  // namespace

kernels::CacheLayer cache_layer(Context& ctx, const CachedKeys& cache, const AttentionBatch& batch) {
  check(batch.pages.defined(), "attention: the batch has no page table");
  return {reinterpret_cast<const std::byte* const*>(ctx.address(batch.pages)),
          cache.k_offset,
          cache.k_head,
          cache.v_offset,
          cache.v_head,
          cache.k_type,
          cache.v_type};
}

AttentionBatch attention_batch(Context& ctx, std::vector<SequenceRows> rows, int64_t max_key_distance) {
  AttentionBatch batch;
  constexpr int64_t kFields = sizeof(SequenceRows) / sizeof(int64_t);
  const auto count = static_cast<int64_t>(rows.size());
  batch.sequences = Tensor::from({count, kFields}, std::span(reinterpret_cast<const int64_t*>(rows.data()),
                                                             static_cast<size_t>(count * kFields)))
                        .to(ctx.device.memory());
  for (const auto& s : rows) batch.bias_span = std::max({batch.bias_span, s.past + s.q_rows, s.kv_rows});
  if (max_key_distance > 0) batch.bias_span = std::min(batch.bias_span, max_key_distance);
  batch.rows = std::move(rows);
  return batch;
}

void add_bias(Context& ctx, AttentionBatch& batch, int64_t heads, const DistanceBias& bias) {
  check(bias.table.defined() ? bias.table.rank() == 2 && bias.table.dim(1) == heads
                             : static_cast<int64_t>(bias.slopes.size()) == heads,
        "attention: one bias per head");
  const int64_t span = batch.bias_span, width = 2 * span + 1;
  batch.bias_by_key = bias.rounded_by_key;
  if (!bias.table.defined()) {
    std::vector<float> values;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < width; ++i) values.push_back(alibi(bias, h, i - span));
    batch.bias = Tensor::from({heads, width}, values).to(ctx.device.memory());
    return;
  }
  std::vector<int64_t> bucket;
  for (int64_t i = 0; i < width; ++i)
    bucket.push_back(t5_bucket(i - span, bias.bidirectional, bias.table.dim(0), bias.max_distance));
  batch.bias_table = bias.table;
  batch.bias_bucket = ctx.upload(bucket);
  batch.bias = ctx.empty({heads, width});
  ctx.device.bias_from_table(
      {ctx.f32(bias.table), ctx.i64(batch.bias_bucket), ctx.f32(batch.bias), heads, width});
}

kernels::AttentionShape attention_shape(Context& ctx, const AttentionBatch& batch,
                                        const AttentionOptions& o) {
  check(o.kv_heads > 0 && o.heads % o.kv_heads == 0, "attention: heads must be a multiple of kv heads");
  check(!batch.bias.defined() || batch.bias.dim(0) == o.heads, "attention: one bias per head");
  kernels::AttentionShape s{};
  s.sequences = sequences_of(ctx, batch), s.count = static_cast<int64_t>(batch.rows.size());
  for (const SequenceRows& rows : batch.rows) {
    s.total_q_rows += rows.q_rows;
    s.max_q_rows = std::max(s.max_q_rows, rows.q_rows);
    s.max_kv_rows = std::max(s.max_kv_rows, rows.kv_rows);
  }
  s.heads = o.heads, s.kv_heads = o.kv_heads, s.head_dim = o.head_dim;
  s.causal = o.causal, s.window = o.window, s.scale = o.scale, s.soft_cap = o.soft_cap;
  s.bias = ctx.f32(batch.bias), s.bias_span = batch.bias_span, s.bias_by_key = batch.bias_by_key;
  if (ctx.training && o.dropout > 0)
    s.dropout = o.dropout, s.seed = ctx.seed, s.step = ctx.step, s.stream = ctx.stream++;
  return s;
}

Tensor attend(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionBatch& batch,
              const AttentionOptions& o, std::vector<Tensor>* weights, const Tensor& sink_logits) {
  const int64_t kv_width = o.kv_heads * o.head_dim;
  check(q.dim(-1) == o.heads * o.head_dim && k.dim(-1) == kv_width && v.dim(-1) == kv_width,
        "attention: widths and heads disagree");
  for (const auto& s : batch.rows)
    check(s.q_start + s.q_rows <= q.dim(0) && s.kv_start + s.kv_rows <= k.dim(0),
          "attention: rows out of range");
  if (computes_bf16(ctx) && attends_bf16(ctx, batch, o) && !weights && !sink_logits.defined())
    return attend_bf16(ctx, cast_to_bf16(ctx, q), cast_to_bf16(ctx, k), cast_to_bf16(ctx, v), batch, o);
  if (any_bf16(ctx, q, k, v))
    return attend(ctx, cast_to_f32(ctx, q), cast_to_f32(ctx, k), cast_to_f32(ctx, v), batch, o, weights,
                  sink_logits);
  const kernels::AttentionShape shape = attention_shape(ctx, batch, o);
  AttentionResult result{ctx.empty(q.shape()), ctx.empty({q.dim(0), o.heads}), {}};
  ctx.device.attention({shape, ctx.f32(q), ctx.f32(k), ctx.f32(v), ctx.f32(result.out), ctx.f32(result.lse)});
  if (sink_logits.defined()) result = apply_sink_logits(ctx, result.out, result.lse, sink_logits);
  if (weights)
    for (const SequenceRows& s : batch.rows) {
      weights->push_back(ctx.empty({o.heads, s.q_rows, s.kv_rows}));
      ctx.device.attention_weights({shape, ctx.f32(q), ctx.f32(k), ctx.f32(v), ctx.f32(result.lse),
                                    ctx.f32(weights->back()), &s - batch.rows.data()});
    }
  if (ctx.any_needs(q, k, v, batch.bias_table) || (sink_logits.defined() && ctx.needs(sink_logits)))
    ctx.tape->record(result.out, [ctx, batch, shape, q, k, v, result, sink_logits](const Tensor& dy) {
      backward(ctx, batch, shape, q, k, v, result.out, result.lse, dy);
      if (sink_logits.defined() && ctx.needs(sink_logits)) sink_logits_backward(ctx, sink_logits, result, dy);
    });
  return result.out;
}

Tensor attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                 const std::vector<SequenceRows>& sequences, const AttentionOptions& o,
                 const DistanceBias& bias, std::vector<Tensor>* weights) {
  AttentionBatch batch = attention_batch(ctx, sequences);
  if (bias.defined()) add_bias(ctx, batch, o.heads, bias);
  return attend(ctx, q, k, v, batch, o, weights);
}

void store_keys(Context& ctx, const Tensor& k, const Tensor& v, const CachedKeys& cache,
                const AttentionBatch& batch, int64_t kv_heads) {
  check(k.shape() == v.shape() && k.dim(-1) % kv_heads == 0, "store_keys: widths and heads disagree");
  int64_t max_rows = 0;
  for (const auto& s : batch.rows) {
    check(s.q_start + s.q_rows <= k.dim(0), "store_keys: rows out of range");
    max_rows = std::max(max_rows, s.q_rows);
  }
  const auto count = static_cast<int64_t>(batch.rows.size());
  if (cache.k_type == DType::kBF16) {
    const Tensor keys = cast_to_bf16(ctx, k), values = cast_to_bf16(ctx, v);
    ctx.device.cache_store_bf16({sequences_of(ctx, batch), count, max_rows, ctx.bf16(keys), ctx.bf16(values),
                                 kv_heads, k.dim(-1) / kv_heads, cache_layer(ctx, cache, batch)});
    return;
  }
  const Tensor keys = cast_to_f32(ctx, k), values = cast_to_f32(ctx, v);
  ctx.device.cache_store({sequences_of(ctx, batch), count, max_rows, ctx.f32(keys), ctx.f32(values), kv_heads,
                          k.dim(-1) / kv_heads, cache_layer(ctx, cache, batch)});
}

Tensor attend_cached(Context& ctx, const Tensor& q, const CachedKeys& cache, const AttentionBatch& batch,
                     const AttentionOptions& o, const Tensor& q_sinks, const Tensor& sink_logits) {
  check(!ctx.tape, "attention on a cache has no gradient");
  check(q.dim(-1) == o.heads * o.head_dim, "attention: widths and heads disagree");
  for (const auto& s : batch.rows) check(s.q_start + s.q_rows <= q.dim(0), "attention: rows out of range");
  if (cache.k_type == DType::kBF16) {
    check(attends_bf16(ctx, batch, o) && o.sinks == 0 && !sink_logits.defined(),
          "attention: no kernel for a bf16 cache");
    const Tensor rows = cast_to_bf16(ctx, q), out = ctx.empty(q.shape(), DType::kBF16);
    ctx.device.attention_cached_bf16(
        {attention_shape(ctx, batch, o), ctx.bf16(rows), cache_layer(ctx, cache, batch), ctx.bf16(out)});
    return out;
  }
  if (any_bf16(ctx, q, q_sinks))
    return attend_cached(ctx, cast_to_f32(ctx, q), cache, batch, o, cast_to_f32(ctx, q_sinks), sink_logits);
  const Tensor out = ctx.empty(q.shape());
  const Tensor lse = sink_logits.defined() ? ctx.empty({q.dim(0), o.heads}) : Tensor();
  ctx.device.attention_cached({attention_shape(ctx, batch, o), ctx.f32(q), o.sinks, ctx.f32(q_sinks),
                               cache_layer(ctx, cache, batch), ctx.f32(out), ctx.f32(lse)});
  return sink_logits.defined() ? apply_sink_logits(ctx, out, lse, sink_logits).out : out;
}

}  // namespace makar::ops
