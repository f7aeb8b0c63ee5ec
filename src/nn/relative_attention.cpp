// Attention whose scores depend on content and distance together: DeBERTa and XLNet. Scores are computed
// explicitly, one sequence and head at a time; whole sequences only, without a cache.
#include <algorithm>
#include <cmath>

#include "nn/attention.h"
#include "ops/bf16.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {
namespace {

using RelativeKind = RelativeSpec::Kind;

// DeBERTa's bucket of a distance: small distances have their own buckets, larger ones share buckets by their
// logarithm.
int64_t log_bucket(int64_t distance, int64_t buckets, int64_t max_distance) {
  const int64_t middle = buckets / 2, size = std::abs(distance);
  if (size <= middle) return distance;
  // In f32, as the reference computes it.
  const float scaled = std::log(static_cast<float>(size) / static_cast<float>(middle)) /
                       std::log(static_cast<float>(max_distance - 1) / static_cast<float>(middle)) *
                       static_cast<float>(middle - 1);
  const auto bucket = static_cast<int64_t>(std::ceil(scaled)) + middle;
  return distance < 0 ? -bucket : bucket;
}

// The rows of the table of distances, by query - key + length - 1.
std::vector<int64_t> distance_rows(const RelativeSpec& r, int64_t length) {
  std::vector<int64_t> rows;
  for (int64_t d = 1 - length; d < length; ++d) {
    if (r.kind == RelativeKind::kXl) {
      rows.push_back(d + length - 1);
      continue;
    }
    const int64_t at = r.buckets > 0 ? log_bucket(d, r.buckets, r.max_distance) : d;
    rows.push_back(std::clamp<int64_t>(at + r.span, 0, 2 * r.span - 1));
  }
  return rows;
}

// out[i, j] = x[i, column(i, j)] for x [rows, columns].
template <class F>
Tensor gather_columns(Context& ctx, const Tensor& x, int64_t keys, F&& column) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  std::vector<int64_t> index(static_cast<size_t>(rows * keys));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < keys; ++j) index[static_cast<size_t>(i * keys + j)] = i * columns + column(i, j);
  return ops::reshape(ctx, ops::gather_rows(ctx, ops::reshape(ctx, x, {rows * columns, 1}), index),
                      {rows, keys});
}

// Sines and cosines of the distances 1 - length to length - 1, in the order of distance_rows.
Tensor xl_positions(Context& ctx, int64_t length, int64_t width) {
  Tensor out = Tensor::empty({2 * length - 1, width});
  const int64_t half = width / 2;
  for (int64_t d = 1 - length; d < length; ++d)
    for (int64_t i = 0; i < half; ++i) {
      const auto frequency = static_cast<float>(
          1.0 / std::pow(10000.0, 2.0 * static_cast<double>(i) / static_cast<double>(width)));
      const float angle = static_cast<float>(d) * frequency;
      float* row = out.f32() + (d + length - 1) * width;
      row[i] = static_cast<float>(std::sin(static_cast<double>(angle)));
      row[half + i] = static_cast<float>(std::cos(static_cast<double>(angle)));
    }
  return out.to(ctx.device.memory());
}

}  // namespace

Tensor Attention::relative_mix(ForwardContext& f, const Rows& projections, const AttentionInputs& in,
                               int64_t layer) const {
  Context& ctx = f.ops;
  check(!f.cache, "relative attention has no cache");
  const RelativeSpec& r = *spec_.relative;
  const bool xl = r.kind == RelativeKind::kXl;
  const int64_t heads = spec_.heads, dim = spec_.head_dim;
  const std::vector<int64_t> head_widths(static_cast<size_t>(heads), dim);
  const auto split_heads = [&](const Tensor& t) {
    return ops::split(ctx, ops::cast_to_f32(ctx, t), head_widths, -1);
  };
  const auto add_bias = [&](const Tensor& t, const Parameter* bias) {
    return ops::add(ctx, ops::cast_to_f32(ctx, t), ops::reshape(ctx, bias->value, {heads * dim}));
  };
  const auto content = split_heads(xl ? add_bias(projections.query, content_bias_) : projections.query),
             keys = split_heads(projections.key), values = split_heads(projections.value);
  std::vector<Tensor> position_queries, position_keys, to_distances, to_segments, segments;
  if (xl) {
    to_distances = split_heads(add_bias(projections.query, distance_bias_));
    if (!in.types.empty()) {
      to_segments = split_heads(add_bias(projections.query, segment_bias_));
      segments = split_heads(segments_->value);
    }
  }
  // Applies a layer to the table of distances, with the adapter of the sequence that starts at row `start`.
  const auto project_table = [&](const Linear& linear, const Tensor& table, int64_t start) {
    if (ctx.row_adapters.empty()) return split_heads(linear(ctx, table));
    const std::vector<int32_t> adapters(static_cast<size_t>(table.dim(0)),
                                        ctx.row_adapters[static_cast<size_t>(start)]);
    Context table_ctx = ctx;
    table_ctx.row_adapters = adapters;
    return split_heads(linear(table_ctx, table));
  };
  std::vector<int64_t> lengths;
  for (const auto& rows : in.self.rows) lengths.push_back(rows.q_rows);
  const auto split_sequences = [&](const Tensor& t) { return ops::split(ctx, t, lengths, 0); };
  const auto split_each = [&](const std::vector<Tensor>& list) {
    std::vector<std::vector<Tensor>> out;
    for (const Tensor& t : list) out.push_back(split_sequences(t));
    return out;
  };
  const auto q_rows = split_each(content), k_rows = split_each(keys), v_rows = split_each(values),
             d_rows = split_each(to_distances), s_rows = split_each(to_segments);
  std::vector<Tensor>* weights = nullptr;
  if (f.record && f.record->attention) {
    auto& map = f.record->attentions.emplace_back();
    if (f.record->wants_attention(layer)) weights = &map;
  }
  std::vector<Tensor> mixed;
  for (size_t s = 0; s < lengths.size(); ++s) {
    const int64_t length = lengths[s], visible_keys = in.self.rows[s].kv_rows,
                  start = in.self.rows[s].q_start;
    const std::vector<int64_t> rows = distance_rows(r, length);
    const auto at = [&](int64_t i) {
      return in.order.empty() ? i : in.positions[static_cast<size_t>(start + i)];
    };
    const auto row = [&](int64_t i, int64_t j) {
      return rows[static_cast<size_t>(at(i) - at(j) + length - 1)];
    };
    if (xl) {
      position_keys = project_table(distance, xl_positions(ctx, length, distance.in()), start);
    } else if (s == 0 || !ctx.row_adapters.empty()) {
      if (r.position_to_content)
        position_queries = project_table(r.own_projections ? distance_query : q, in.relative, start);
      if (r.content_to_position)
        position_keys = project_table(r.own_projections ? distance_key : k, in.relative, start);
    }
    Tensor mask;  // -1e30 for keys that are not attended to
    if (visible_keys < length || !in.order.empty()) {
      const auto attends = [&](int64_t i, int64_t j) {
        if (in.order.empty()) return j < visible_keys || (xl && i == j);
        const int64_t query_order = in.order[static_cast<size_t>(start + i)];
        return j < visible_keys &&
               (in.order[static_cast<size_t>(start + j)] < std::max<int64_t>(1, query_order) ||
                (i < visible_keys && i == j));
      };
      Tensor host_mask = Tensor::zeros({length, length});
      for (int64_t i = 0; i < length; ++i)
        for (int64_t j = 0; j < length; ++j)
          if (!attends(i, j)) host_mask.f32()[i * length + j] = -1e30f;
      mask = host_mask.to(ctx.device.memory());
    }
    std::vector<Tensor> out, maps;
    for (size_t h = 0; h < static_cast<size_t>(heads); ++h) {
      Tensor scores = ops::linear(ctx, q_rows[h][s], k_rows[h][s]);
      const auto add = [&](const Tensor& t) { scores = ops::add(ctx, scores, t); };
      if (xl || r.content_to_position)
        add(gather_columns(ctx, ops::linear(ctx, xl ? d_rows[h][s] : q_rows[h][s], position_keys[h]), length,
                           row));
      if (!xl && r.position_to_content)
        add(ops::transpose(ctx, gather_columns(ctx, ops::linear(ctx, k_rows[h][s], position_queries[h]),
                                               length, [&](int64_t j, int64_t i) { return row(i, j); })));
      if (!segments.empty())
        add(gather_columns(
            ctx, ops::linear(ctx, s_rows[h][s], segments[h]), length, [&](int64_t i, int64_t j) {
              return in.types[static_cast<size_t>(start + i)] != in.types[static_cast<size_t>(start + j)] ? 1
                                                                                                          : 0;
            }));
      scores = ops::scale(ctx, scores, spec_.scale);
      if (mask.defined()) scores = ops::add(ctx, scores, mask);
      const Tensor p = ops::softmax(ctx, scores);
      if (weights) maps.push_back(p);
      out.push_back(ops::linear(ctx, ops::dropout(ctx, p, spec_.dropout), ops::transpose(ctx, v_rows[h][s])));
    }
    if (weights) weights->push_back(ops::reshape(ctx, ops::concat(ctx, maps, 0), {heads, length, length}));
    mixed.push_back(ops::concat(ctx, out, -1));
  }
  return ops::concat(ctx, mixed, 0);
}

}  // namespace makar
