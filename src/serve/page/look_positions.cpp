// Positional encodings as data: tables, angles, slopes, biases by distance.
#include <cmath>

#include "ops/embedding.h"
#include "serve/page/look.h"

namespace makar {
namespace {

constexpr int64_t kMaxTableRows = 128, kMaxTableColumns = 512, kMaxDistance = 64;

Json table_json(Context& ctx, const Parameter& table, const EmbeddingSpec& spec) {
  const int64_t rows = std::min(kMaxTableRows, table.shape[0] - spec.position_offset);
  std::vector<int64_t> indices(static_cast<size_t>(std::max<int64_t>(rows, 0)));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i) + spec.position_offset;
  if (indices.empty()) return nullptr;
  const Tensor values = ops::embedding(ctx, table.value, indices).host();  // [rows, width]
  const int64_t columns = std::min(kMaxTableColumns, values.dim(1));
  std::vector<float> shown_values;
  for (int64_t r = 0; r < rows; ++r)
    shown_values.insert(shown_values.end(), values.f32() + r * values.dim(1),
                        values.f32() + r * values.dim(1) + columns);
  return {{"kind", spec.positions == PositionKind::kLearned ? "learned" : "sinusoidal"},
          {"positions", spec.max_positions - spec.position_offset},
          {"width", values.dim(1)},
          {"matrix", byte_matrix(shown_values.data(), rows, columns)}};
}

// The bias per head for key distances from -kMaxDistance to 0 (causal) or +kMaxDistance.
Json t5_json(Context& ctx, const Parameter& table, const AttentionSpec& spec) {
  std::vector<int64_t> buckets;
  for (int64_t d = -kMaxDistance; d <= (spec.causal ? 0 : kMaxDistance); ++d)
    buckets.push_back(ops::t5_bucket(d, !spec.causal, spec.t5_buckets, spec.t5_max_distance));
  const Tensor rows = ops::embedding(ctx, table.value, buckets).host();  // [distances, heads]
  const int64_t distances = rows.dim(0), heads = rows.dim(1);
  std::vector<float> by_head(static_cast<size_t>(heads * distances));
  for (int64_t d = 0; d < distances; ++d)
    for (int64_t h = 0; h < heads; ++h)
      by_head[static_cast<size_t>(h * distances + d)] = rows.f32()[d * heads + h];
  return {
      {"kind", "t5"}, {"first", -kMaxDistance}, {"matrix", byte_matrix(by_head.data(), heads, distances)}};
}

}  // namespace

Json look_positions(Context& ctx, const Model& model, const StackSpec& stack, int64_t tokens) {
  Json out = Json::array();
  const AttentionSpec& a = stack.first().attention;
  if (stack.embedding.positions != PositionKind::kNone)
    if (const Parameter* table = model.parameters().find(stack.name + ".embed.positions.weight"))
      if (Json json = table_json(ctx, *table, stack.embedding); !json.is_null())
        out.push_back(std::move(json));
  if (a.rope) {
    const ops::RopeFrequencies rope = ops::rope_frequencies(*a.rope, tokens);
    out.push_back({{"kind", "rotary"},
                   {"theta", a.rope->theta},
                   {"head_dim", a.head_dim},
                   {"interleaved", a.rope->interleaved},
                   {"frequencies", rope.frequencies}});
  }
  if (a.bias == BiasKind::kAlibi) {
    std::vector<float> slopes = alibi_slopes(a.heads);
    for (float& s : slopes) s *= a.alibi_scale;
    out.push_back({{"kind", "alibi"}, {"slopes", slopes}});
  }
  if (a.bias == BiasKind::kT5)
    if (const Parameter* table = model.parameters().find(stack.name + ".relative_bias.weight"))
      out.push_back(t5_json(ctx, *table, a));
  return out;
}

}  // namespace makar
