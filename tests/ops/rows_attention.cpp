// Rows of the op table: fused attention, against the definition with the full matrix of weights.
#include <cmath>

#include "base/rng.h"
#include "ops/attention.h"
#include "ops/op_table.h"

namespace makar::test {
namespace {

using ops::AttentionOptions;
using ops::DistanceBias;
using ops::SequenceRows;

struct Case {
  std::string name;
  AttentionOptions o;
  std::vector<SequenceRows> sequences;
  bool alibi = false, table = false, bidirectional_table = true, record = false, sinks = false;
};

// The T5 bucket, from the paper's description: half the buckets are exact distances, the others grow with the
// logarithm.
int64_t bucket_of(int64_t distance, bool bidirectional, int64_t buckets, int64_t max_distance) {
  int64_t first = 0, n = std::max<int64_t>(-distance, 0);
  if (bidirectional) buckets /= 2, first = distance > 0 ? buckets : 0, n = std::abs(distance);
  const int64_t exact = buckets / 2;
  if (n < exact) return first + n;
  const double log_bucket = std::log(static_cast<double>(n) / static_cast<double>(exact)) /
                            std::log(static_cast<double>(max_distance) / static_cast<double>(exact)) *
                            static_cast<double>(buckets - exact);
  return first + std::min(exact + static_cast<int64_t>(log_bucket + 1e-6), buckets - 1);
}

constexpr int64_t kBuckets = 8, kMaxDistance = 20;

float slope_of(int64_t head) { return 0.1f * static_cast<float>(head + 1); }

// The dropout contract: a pure function of (seed, step, call, sequence, head, row, key).
double keep_factor(const Case& c, size_t s, int64_t h, int64_t i, int64_t j) {
  if (c.o.dropout <= 0.0f) return 1.0;
  const uint64_t stream = s * static_cast<uint64_t>(c.o.heads) + static_cast<uint64_t>(h);
  const uint64_t index = (stream << 40) | static_cast<uint64_t>(i) << 20 | static_cast<uint64_t>(j);
  return Rng(kSeed, Purpose::kAttentionDropout, kStep).uniform(index) < c.o.dropout
             ? 0.0
             : 1.0 / (1.0 - c.o.dropout);
}

Arrays reference(const Case& c, const Arrays& in) {
  const auto& o = c.o;
  const int64_t q_width = o.heads * o.head_dim, kv_width = o.kv_heads * o.head_dim;
  Array out(in[0].shape);
  Arrays maps;
  for (size_t s = 0; s < c.sequences.size(); ++s) {
    const SequenceRows& r = c.sequences[s];
    Array map({o.heads, r.q_rows, r.kv_rows});
    for (int64_t h = 0; h < o.heads; ++h)
      for (int64_t i = 0; i < r.q_rows; ++i) {
        const double* q = in[0].v.data() + (r.q_start + i) * q_width + h * o.head_dim;
        const int64_t kv_head = h * o.kv_heads / o.heads, position = r.past + i;
        std::vector<double> w(static_cast<size_t>(r.kv_rows), 0.0);
        double sum = c.sinks ? std::exp(in[3][h]) : 0;
        for (int64_t j = 0; j < r.kv_rows; ++j) {
          if (o.causal && j > position) continue;
          if (o.window > 0 && std::abs(j - position) >= o.window) continue;
          const double* k = in[1].v.data() + (r.kv_start + j) * kv_width + kv_head * o.head_dim;
          double score = 0;
          for (int64_t d = 0; d < o.head_dim; ++d) score += q[d] * k[d];
          score *= o.scale;
          if (o.soft_cap > 0) score = o.soft_cap * std::tanh(score / o.soft_cap);
          if (c.alibi) score += slope_of(h) * static_cast<double>(j - position);
          if (c.table)
            score +=
                in[3][bucket_of(j - position, c.bidirectional_table, kBuckets, kMaxDistance) * o.heads + h];
          sum += w[static_cast<size_t>(j)] = std::exp(score);
        }
        for (int64_t j = 0; j < r.kv_rows && sum > 0; ++j) {
          const double p = w[static_cast<size_t>(j)] / sum;
          map[(h * r.q_rows + i) * r.kv_rows + j] = p;
          if (p == 0) continue;
          const double* v = in[2].v.data() + (r.kv_start + j) * kv_width + kv_head * o.head_dim;
          for (int64_t d = 0; d < o.head_dim; ++d)
            out[(r.q_start + i) * q_width + h * o.head_dim + d] += p * keep_factor(c, s, h, i, j) * v[d];
        }
      }
    maps.push_back(map);
  }
  Arrays all = {out};
  if (c.record) all.insert(all.end(), maps.begin(), maps.end());
  return all;
}

void add(std::vector<OpRow>& rows, Case c) {
  c.o.scale = 1.0f / std::sqrt(static_cast<float>(c.o.head_dim));
  int64_t q_rows = 0, kv_rows = 0;
  for (const auto& s : c.sequences)
    q_rows = std::max(q_rows, s.q_start + s.q_rows), kv_rows = std::max(kv_rows, s.kv_start + s.kv_rows);
  const Shape kv{kv_rows, c.o.kv_heads * c.o.head_dim};
  OpRow row{"attention_" + c.name,
            {{{q_rows, c.o.heads * c.o.head_dim}, 1.5}, {kv, 1.5}, {kv}},
            {},
            {},
            c.o.dropout > 0};
  if (c.table) row.inputs.push_back({{kBuckets, c.o.heads}});
  if (c.sinks) row.inputs.push_back({{c.o.heads}});
  row.run = [c](Context& ctx, const Tensors& in) {
    DistanceBias bias;
    if (c.alibi)
      for (int64_t h = 0; h < c.o.heads; ++h) bias.slopes.push_back(slope_of(h));
    if (c.table)
      bias.table = in[3], bias.bidirectional = c.bidirectional_table, bias.max_distance = kMaxDistance;
    Tensors out(1), maps;
    if (c.sinks)
      out[0] = ops::attend(ctx, in[0], in[1], in[2], ops::attention_batch(ctx, c.sequences), c.o,
                           c.record ? &maps : nullptr, in[3]);
    else
      out[0] = ops::attention(ctx, in[0], in[1], in[2], c.sequences, c.o, bias, c.record ? &maps : nullptr);
    out.insert(out.end(), maps.begin(), maps.end());
    return out;
  };
  row.reference = [c](const Arrays& in) { return reference(c, in); };
  row.gradient_limit = 2e-5;
  rows.push_back(row);
}

AttentionOptions heads(int64_t n, int64_t kv, int64_t dim, bool causal) {
  AttentionOptions o;
  o.heads = n, o.kv_heads = kv, o.head_dim = dim, o.causal = causal;
  return o;
}

}  // namespace

void add_attention_rows(std::vector<OpRow>& rows) {
  for (const int64_t dim : {8, 12, 24, 64})
    add(rows, {"causal_dim" + std::to_string(dim), heads(2, 2, dim, true), ragged({5, 1, 9})});
  add(rows, {"bidirectional", heads(2, 2, 8, false), ragged({5, 1, 9})});
  for (const int64_t n : {96, 97, 200}) {
    add(rows, {"causal_length" + std::to_string(n), heads(2, 2, 8, true), ragged({n})});
    add(rows, {"bidirectional_length" + std::to_string(n), heads(1, 1, 12, false), ragged({n})});
  }
  add(rows, {"ragged_across_tiles", heads(4, 2, 8, true), ragged({100, 3, 33, 200, 31, 1})});
  add(rows, {"grouped", heads(6, 2, 8, true), ragged({7, 40})});
  add(rows, {"multi_query", heads(5, 1, 8, true), ragged({7, 40})});
  const std::vector<SequenceRows> cross = {{0, 4, 0, 11, 0}, {4, 30, 11, 5, 0}, {34, 3, 16, 130, 0}};
  add(rows, {"cross", heads(2, 2, 8, false), cross});
  const std::vector<SequenceRows> past = {{0, 4, 0, 14, 10}, {4, 1, 14, 101, 100}, {5, 70, 115, 160, 90}};
  add(rows, {"past", heads(2, 1, 8, true), past});

  AttentionOptions o = heads(2, 1, 8, true);
  o.window = 4;
  add(rows, {"window", o, ragged({5, 17, 120})});
  add(rows, {"window_past", o, past});
  o.window = 120;
  add(rows, {"window_across_tiles", o, ragged({230})});
  o = heads(2, 2, 8, false), o.window = 5;
  add(rows, {"window_bidirectional", o, ragged({17})});
  o.window = 40;
  add(rows, {"window_bidirectional_across_tiles", o, ragged({230, 20})});
  o = heads(2, 1, 8, true), o.soft_cap = 1.5f;
  add(rows, {"soft_cap", o, ragged({5, 17, 99})});
  o.window = 30;
  add(rows, {"soft_cap_window", o, ragged({120})});

  add(rows, {"alibi", heads(4, 4, 8, true), ragged({5, 110}), true});
  add(rows, {"alibi_past", heads(4, 4, 8, true), past, true});
  add(rows, {"t5_bidirectional", heads(2, 2, 8, false), ragged({5, 110}), false, true, true});
  add(rows, {"t5_causal", heads(2, 2, 8, true), ragged({5, 110}), false, true, false});
  o = heads(2, 1, 8, true), o.soft_cap = 1.5f;
  add(rows, {"t5_soft_cap", o, ragged({30}), false, true, false});
  Case sinks{"sinks", heads(4, 2, 8, true), ragged({5, 110}), false, false, true, false, true};
  add(rows, sinks);
  sinks.name = "sinks_window", sinks.o.window = 7;
  add(rows, sinks);
  sinks.name = "sinks_dropout", sinks.o.dropout = 0.3f;
  add(rows, sinks);
  o = heads(2, 2, 8, true), o.dropout = 0.3f;
  add(rows, {"dropout", o, ragged({5, 110})});
  add(rows, {"dropout_t5", o, ragged({40}), false, true, false});
}

}  // namespace makar::test
