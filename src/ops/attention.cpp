#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"

namespace makar::ops {

int64_t t5_bucket(int64_t distance, bool bidirectional, int64_t buckets, int64_t max_distance) {
  int64_t bucket = 0, n = -distance;  // how far back the key lies
  if (bidirectional) {
    buckets /= 2;
    if (distance > 0) bucket = buckets;
    n = std::abs(distance);
  } else {
    n = std::max<int64_t>(n, 0);
  }
  const int64_t exact = buckets / 2;
  if (n < exact) return bucket + n;
  // In f32, step by step as the reference does: at powers of two the rounding decides the bucket.
  const float ratio =
      std::log(static_cast<float>(n) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const int64_t large = exact + static_cast<int64_t>(ratio * static_cast<float>(buckets - exact));
  return bucket + std::min(large, buckets - 1);
}

namespace {

using kernels::AttentionHead;
using kernels::AttentionHeadBackward;

// Bias values for every distance in [-span, span], a row a head.
struct BiasRows {
  int64_t span = 0;
  Tensor values;                // [heads, 2 span + 1]
  std::vector<int64_t> bucket;  // of each distance, for a learned table
  int64_t row() const { return 2 * span + 1; }
  const float* head(int64_t h) const { return values.defined() ? values.f32() + h * row() + span : nullptr; }
};

float alibi(const DistanceBias& bias, int64_t head, int64_t at) {
  const float slope = bias.slopes[static_cast<size_t>(head)];
  if (!bias.rounded_by_key) return slope * static_cast<float>(at) * bias.factor;
  const auto rounded = [](float v) { return from_bf16(to_bf16(v)); };
  return rounded(rounded(slope) * rounded(static_cast<float>(at))) * bias.factor;
}

BiasRows bias_rows(const DistanceBias& bias, const AttentionOptions& o,
                   const std::vector<SequenceRows>& sequences) {
  const int64_t heads = o.heads;
  BiasRows rows;
  if (!bias.defined()) return rows;
  check(bias.table.defined() ? bias.table.rank() == 2 && bias.table.dim(1) == heads
                             : static_cast<int64_t>(bias.slopes.size()) == heads,
        "attention: one bias a head");
  for (const auto& s : sequences) rows.span = std::max({rows.span, s.past + s.q_rows, s.kv_rows});
  if (o.sinks > 0) rows.span = std::min(rows.span, o.sinks + o.window);  // nothing is seen from further away
  const int64_t width = 2 * rows.span + 1;
  rows.values = Tensor::empty({heads, width});
  if (bias.table.defined())
    for (int64_t i = 0; i < width; ++i)
      rows.bucket.push_back(
          t5_bucket(i - rows.span, bias.bidirectional, bias.table.dim(0), bias.max_distance));
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < width; ++i)
      rows.values.f32()[h * width + i] =
          bias.table.defined() ? bias.table.f32()[rows.bucket[static_cast<size_t>(i)] * heads + h]
                               : alibi(bias, h, i - rows.span);
  return rows;
}

struct Plan {
  AttentionOptions o;
  std::vector<SequenceRows> sequences;
  BiasRows bias;
  bool bias_by_key = false;
  float dropout = 0;
  uint64_t seed = 0, step = 0, stream = 0;

  // The head h of sequence s; k and v are null where a cache has them.
  AttentionHead head(size_t s, int64_t h, const float* q, const float* k, const float* v) const {
    const SequenceRows& rows = sequences[s];
    AttentionHead a{};
    const int64_t kv_head = h / (o.heads / o.kv_heads);
    a.q_stride = o.heads * o.head_dim, a.kv_stride = o.kv_heads * o.head_dim;
    a.q = q + rows.q_start * a.q_stride + h * o.head_dim;
    const int64_t kv_at = rows.kv_start * a.kv_stride + kv_head * o.head_dim;
    if (k) a.k = k + kv_at, a.v = v + kv_at;
    a.rows = rows.q_rows, a.keys = rows.kv_rows, a.dim = o.head_dim, a.past = rows.past;
    a.causal = o.causal, a.window = o.window, a.scale = o.scale, a.soft_cap = o.soft_cap;
    a.bias = bias.head(h);
    a.bias_by_key = bias_by_key;
    a.out_stride = a.q_stride;
    a.dropout = dropout, a.seed = seed, a.step = step;
    a.stream = (stream * sequences.size() + s) * static_cast<uint64_t>(o.heads) + static_cast<uint64_t>(h);
    return a;
  }
};

Plan make_plan(Context& ctx, const std::vector<SequenceRows>& sequences, const AttentionOptions& o,
               const DistanceBias& bias) {
  check(o.kv_heads > 0 && o.heads % o.kv_heads == 0, "attention: heads must be a multiple of kv heads");
  Plan plan{o, sequences, bias_rows(bias, o, sequences)};
  plan.bias_by_key = bias.rounded_by_key;
  if (ctx.training && o.dropout > 0) {
    plan.dropout = o.dropout, plan.seed = ctx.seed, plan.step = ctx.step;
    plan.stream = ctx.stream++;
  }
  return plan;
}

// Runs every (sequence, head), long prompts cut in blocks of rows so that few heads still fill the threads.
void forward(Context& ctx, const Plan& plan, const Tensor& q, const Tensor& k, const Tensor& v,
             const Tensor& out, const Tensor& lse) {
  constexpr int64_t kRows = 192;
  struct Item {
    size_t sequence;
    int64_t head, row, rows;
  };
  std::vector<Item> items;
  const auto& o = plan.o;
  for (size_t s = 0; s < plan.sequences.size(); ++s)
    for (int64_t h = 0; h < o.heads; ++h) {
      const int64_t rows = plan.sequences[s].q_rows;
      const bool whole =
          plan.dropout > 0 || static_cast<int64_t>(plan.sequences.size()) * o.heads >= 4 * ctx.pool.threads();
      const int64_t step = whole ? rows : kRows;
      for (int64_t r = 0; r < rows; r += std::max<int64_t>(step, 1))
        items.push_back({s, h, r, std::min(step, rows - r)});
    }
  const auto& t = kernels::cpu();
  ctx.pool.run(static_cast<int64_t>(items.size()), [&](int64_t i) {
    const Item& item = items[static_cast<size_t>(i)];
    AttentionHead a = plan.head(item.sequence, item.head, q.f32(), k.f32(), v.f32());
    const int64_t first = plan.sequences[item.sequence].q_start + item.row;
    a.q += item.row * a.q_stride;
    a.past += item.row;
    a.rows = item.rows;
    a.out = out.f32() + first * a.out_stride + item.head * o.head_dim;
    a.lse = lse.f32() + first * o.heads + item.head, a.lse_stride = o.heads;
    Tensor scratch = Tensor::empty({t.attention_scratch(a)});
    t.attention_forward(a, scratch.f32());
  });
}

void backward(Context& ctx, const Plan& plan, const Tensor& q, const Tensor& k, const Tensor& v,
              const Tensor& out, const Tensor& lse, const Tensor& dy, const DistanceBias& bias) {
  const auto& o = plan.o;
  const auto& t = kernels::cpu();
  Tensor dq = Tensor::zeros(q.shape()), dk = Tensor::zeros(k.shape()), dv = Tensor::zeros(v.shape());
  const bool need_bias = ctx.needs(bias.table);
  const int64_t groups = o.heads / o.kv_heads, width = 2 * plan.bias.span + 1;
  const int64_t count = static_cast<int64_t>(plan.sequences.size());
  Tensor dbias = need_bias ? Tensor::zeros({count, o.heads, width}) : Tensor();
  // A key/value head belongs to one task, which adds its query heads in order.
  ctx.pool.run(count * o.kv_heads, [&](int64_t i) {
    const size_t s = static_cast<size_t>(i / o.kv_heads);
    const int64_t kv_head = i % o.kv_heads, kv_width = o.kv_heads * o.head_dim;
    const SequenceRows& rows = plan.sequences[s];
    Tensor scratch;
    for (int64_t h = kv_head * groups; h < (kv_head + 1) * groups; ++h) {
      AttentionHead a = plan.head(s, h, q.f32(), k.f32(), v.f32());
      const int64_t at = rows.q_start * a.q_stride + h * o.head_dim,
                    kv_at = rows.kv_start * kv_width + kv_head * o.head_dim;
      a.out = out.f32() + at;
      a.lse = lse.f32() + rows.q_start * o.heads + h, a.lse_stride = o.heads;
      AttentionHeadBackward g{dy.f32() + at, dq.f32() + at, dk.f32() + kv_at, dv.f32() + kv_at};
      if (need_bias) g.dbias = dbias.f32() + (static_cast<int64_t>(s) * o.heads + h) * width + plan.bias.span;
      if (!scratch.defined()) scratch = Tensor::empty({t.attention_backward_scratch(a)});
      t.attention_backward(a, g, scratch.f32());
    }
  });
  ctx.tape->pass(q, dq);
  ctx.tape->pass(k, dk);
  ctx.tape->pass(v, dv);
  if (!need_bias) return;
  Tensor dtable = Tensor::zeros(bias.table.shape());
  for (int64_t s = 0; s < count; ++s)
    for (int64_t h = 0; h < o.heads; ++h)
      for (int64_t i = 0; i < width; ++i)
        dtable.f32()[plan.bias.bucket[static_cast<size_t>(i)] * o.heads + h] +=
            dbias.f32()[(s * o.heads + h) * width + i];
  ctx.tape->pass(bias.table, dtable);
}

}  // namespace

Tensor attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                 const std::vector<SequenceRows>& sequences, const AttentionOptions& o,
                 const DistanceBias& bias, std::vector<Tensor>* weights) {
  const int64_t kv_width = o.kv_heads * o.head_dim;
  check(q.dim(-1) == o.heads * o.head_dim && k.dim(-1) == kv_width && v.dim(-1) == kv_width,
        "attention: widths and heads disagree");
  for (const auto& s : sequences)
    check(s.q_start + s.q_rows <= q.dim(0) && s.kv_start + s.kv_rows <= k.dim(0),
          "attention: rows out of range");
  const Plan plan = make_plan(ctx, sequences, o, bias);
  Tensor out = Tensor::empty(q.shape()), lse = Tensor::empty({q.dim(0), o.heads});
  forward(ctx, plan, q, k, v, out, lse);
  if (weights)
    for (size_t s = 0; s < sequences.size(); ++s) {
      weights->push_back(Tensor::empty({o.heads, sequences[s].q_rows, sequences[s].kv_rows}));
      for (int64_t h = 0; h < o.heads; ++h) {
        AttentionHead a = plan.head(s, h, q.f32(), k.f32(), v.f32());
        a.lse = lse.f32() + sequences[s].q_start * o.heads + h, a.lse_stride = o.heads;
        a.record = weights->back().f32() + h * a.rows * a.keys;
        Tensor scratch = Tensor::empty({kernels::cpu().attention_scratch(a)});
        kernels::cpu().attention_weights(a, scratch.f32());
      }
    }
  if (ctx.any_needs(q, k, v, bias.table))
    ctx.tape->record(out, [&ctx, plan, q, k, v, out, lse, bias](const Tensor& dy) {
      backward(ctx, plan, q, k, v, out, lse, dy, bias);
    });
  return out;
}

namespace {

// A piece of work on a cache: rows of one head, or all heads of a token that share a key/value head.
struct CachedItem {
  size_t sequence;
  int64_t head, heads, row, rows;
};

constexpr int64_t kTasksEach = 16;  // for each thread

std::vector<CachedItem> cached_items(const std::vector<SequenceRows>& sequences, const AttentionOptions& o) {
  constexpr int64_t kRows = 192;
  std::vector<CachedItem> items;
  const int64_t group = o.heads / o.kv_heads;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const int64_t rows = sequences[s].q_rows;
    if (rows == 1) {
      for (int64_t h = 0; h < o.heads; h += group) items.push_back({s, h, group, 0, 1});
      continue;
    }
    for (int64_t h = 0; h < o.heads; ++h)
      for (int64_t r = 0; r < rows; r += kRows) items.push_back({s, h, 1, r, std::min(kRows, rows - r)});
  }
  return items;
}

}  // namespace

Tensor attention_cached(Context& ctx, const Tensor& q, const CachedKeys& cache,
                        const std::vector<SequenceRows>& sequences, const AttentionOptions& o,
                        const DistanceBias& bias, const Tensor& q_sinks) {
  check(cache.pages.size() == sequences.size(), "attention: one cache a sequence");
  check(q.dim(-1) == o.heads * o.head_dim, "attention: widths and heads disagree");
  for (const auto& s : sequences) check(s.q_start + s.q_rows <= q.dim(0), "attention: rows out of range");
  const Plan plan = make_plan(ctx, sequences, o, bias);
  Tensor out = Tensor::empty(q.shape());
  const std::vector<CachedItem> items = cached_items(sequences, o);
  const auto& t = kernels::cpu();
  const int64_t group = o.heads / o.kv_heads;
  const auto head = [&](const CachedItem& item) {
    AttentionHead a = plan.head(item.sequence, item.head, q.f32(), nullptr, nullptr);
    const int64_t kv_head = item.head / group;
    a.cache = {cache.pages[item.sequence], cache.k_offset + kv_head * cache.k_head,
               cache.v_offset + kv_head * cache.v_head, cache.k_type, cache.v_type};
    a.q += item.row * a.q_stride;
    a.sinks = o.sinks;
    if (q_sinks.defined()) a.q_sinks = q_sinks.f32() + (a.q - q.f32());
    a.past += item.row, a.rows = item.rows;
    a.out = out.f32() + (plan.sequences[item.sequence].q_start + item.row) * a.out_stride +
            item.head * o.head_dim;
    if (item.heads > 1) {
      a.rows = item.heads, a.row_step = 0;
      a.q_stride = a.out_stride = o.head_dim;
      a.bias_stride = plan.bias.row();
    }
    return a;
  };
  const int64_t tasks =
      std::min<int64_t>(static_cast<int64_t>(items.size()), ctx.pool.threads() * kTasksEach);
  ctx.pool.run(tasks, [&](int64_t task) {
    const int64_t count = static_cast<int64_t>(items.size());
    const auto begin = static_cast<size_t>(count * task / tasks),
               end = static_cast<size_t>(count * (task + 1) / tasks);
    Tensor scratch;
    for (size_t i = begin; i < end; ++i) {
      const AttentionHead a = head(items[i]);
      const int64_t floats = t.attention_scratch(a);
      if (floats > (scratch.defined() ? scratch.count() : 0)) scratch = Tensor::empty({floats});
      t.attention_forward(a, scratch.defined() ? scratch.f32() : nullptr);
    }
  });
  return out;
}

}  // namespace makar::ops
