#include "models/positions.h"

#include <algorithm>
#include <cmath>

#include "nn/stack.h"
#include "ops/attention.h"
#include "ops/embedding.h"

namespace makar {
namespace {

// Dot products and distances of the rows of a matrix [size, width].
PositionMap map_of_rows(std::string kind, const std::vector<double>& rows, int64_t size) {
  PositionMap map{std::move(kind), size, false, {}, {}};
  const size_t n = static_cast<size_t>(size), width = rows.size() / n;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      double dot = 0, square = 0;
      for (size_t c = 0; c < width; ++c) {
        const double a = rows[i * width + c], b = rows[j * width + c];
        dot += a * b, square += (a - b) * (a - b);
      }
      map.values.push_back(dot), map.distances.push_back(std::sqrt(square));
    }
  return map;
}

PositionMap map_of_table(Context& ctx, const Parameter& table, const EmbeddingSpec& spec, int64_t size) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < size; ++i) indices.push_back(i + spec.position_offset);
  const Tensor values = ops::embedding(ctx, table.value, indices).host();  // [size, width]
  return map_of_rows(spec.positions == PositionKind::kLearned ? "learned" : "sinusoidal",
                     {values.f32(), values.f32() + values.count()}, size);
}

// Each pair of dimensions of a vector, (1, 0), is rotated by the angle position * frequency.
PositionMap map_of_rotations(const ops::RopeOptions& options, int64_t size) {
  const ops::RopeFrequencies from = ops::rope_frequencies(options, size);
  std::vector<double> rows;
  for (int64_t i = 0; i < size; ++i)
    for (const double frequency : from.frequencies) {
      rows.push_back(std::cos(static_cast<double>(i) * frequency));
      rows.push_back(std::sin(static_cast<double>(i) * frequency));
    }
  return map_of_rows("rotary", rows, size);
}

// `bias(distance)`: what is added to the score of a key at query + distance.
template <class Bias>
PositionMap map_of_bias(std::string kind, int64_t size, bool causal, Bias bias) {
  PositionMap map{std::move(kind), size, causal, {}, {}};
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j) map.values.push_back(causal && j > i ? 0 : bias(j - i));
  return map;
}

}  // namespace

double PositionMap::spread() const {
  double largest = 0;
  for (int64_t d = causal ? 0 : 1 - size; d < size; ++d) {  // query - key
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = std::max<int64_t>(d, 0); i < std::min(size, size + d); ++i)
      low = std::min(low, at(i, i - d)), high = std::max(high, at(i, i - d));
    largest = std::max(largest, high - low);
  }
  return largest;
}

std::vector<PositionMap> position_maps(Context& ctx, const Model& model, const StackSpec& stack, int64_t size,
                                       int64_t head) {
  std::vector<PositionMap> out;
  if (stack.embedding.positions != PositionKind::kNone)
    if (const Parameter* table = model.parameters().find(stack.name + ".embed.positions.weight"))
      if (const int64_t rows = std::min(size, table->shape[0] - stack.embedding.position_offset); rows > 0)
        out.push_back(map_of_table(ctx, *table, stack.embedding, rows));
  const auto rotary = std::find_if(stack.blocks.begin(), stack.blocks.end(),
                                   [](const BlockSpec& b) { return b.attention.rope.has_value(); });
  if (rotary != stack.blocks.end()) out.push_back(map_of_rotations(*rotary->attention.rope, size));
  const AttentionSpec& a = stack.first().attention;
  if (a.bias == BiasKind::kAlibi) {
    const double slope =
        static_cast<double>(alibi_slopes(a.heads)[static_cast<size_t>(head)] * a.alibi_scale);
    out.push_back(map_of_bias("alibi", size, a.causal, [&](int64_t distance) {
      return 0.0 - slope * std::abs(static_cast<double>(distance));
    }));
  }
  if (a.bias == BiasKind::kT5)
    if (const Parameter* table = model.parameters().find(stack.name + ".relative_bias.weight")) {
      const Tensor rows = table->value.host();  // [buckets, heads]
      out.push_back(map_of_bias("t5", size, a.causal, [&](int64_t distance) {
        const int64_t bucket = ops::t5_bucket(distance, !a.causal, a.t5_buckets, a.t5_max_distance);
        return static_cast<double>(rows.f32()[bucket * a.heads + head]);
      }));
    }
  return out;
}

}  // namespace makar
