#include "nn/source_attention.h"

#include <cmath>

#include "nn/gathered_adapters.h"
#include "ops/bf16.h"
#include "ops/elementwise.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {
namespace {

using ops::Activation;
using Score = AlignmentSpec::Score;
using Range = AlignmentSpec::Range;

constexpr float kMasked = -1e30f;  // added to the scores of positions outside of the window

// Each row repeated `times` times in place (each_row), or the whole matrix repeated `times` times.
Tensor repeat_rows(Context& ctx, const Tensor& x, int64_t times, bool each_row) {
  std::vector<int64_t> index;
  const int64_t rows = x.dim(0);
  for (int64_t i = 0; i < rows * times; ++i) index.push_back(each_row ? i / times : i % rows);
  return ops::gather_rows(ctx, x, index);
}

Tensor constant(Context& ctx, const Shape& shape, const std::vector<float>& values) {
  return Tensor::from(shape, std::span<const float>(values)).to(ctx.device.memory());
}

}  // namespace

void AlignmentRecord::add(size_t sequence, const Tensor& weights) {
  if (!record_) return;
  if (rows_.size() <= sequence) rows_.resize(sequence + 1);
  rows_[sequence].push_back(weights);
}

void AlignmentRecord::finish() {
  if (!record_ || rows_.empty()) return;
  for (const auto& rows : rows_) {
    int64_t count = 0;
    for (const Tensor& t : rows) count += t.dim(0);
    const int64_t width = rows.empty() ? 0 : rows[0].dim(1);
    Tensor map = Tensor::empty({1, count, width});
    float* at = map.f32();
    for (const Tensor& t : rows) {
      const Tensor host = t.host();
      at = std::copy_n(host.f32(), host.count(), at);
    }
    record_->cross_attentions.back().push_back(map);
  }
}

SourceAttention::SourceAttention(ParameterSet& set, const std::string& name, int64_t width,
                                 const BlockSpec& spec)
    : spec_(*spec.alignment), cache_spec_(spec.attention), width_(width) {
  const bool network = spec_.score == Score::kConcat || spec_.score == Score::kAdditive;
  if (spec_.score == Score::kGeneral || network) query_ = Linear(set, name + ".query", width, width, false);
  if (spec_.score == Score::kLocation) query_ = Linear(set, name + ".query", width, spec_.positions, false);
  if (network) {
    key_ = Linear(set, name + ".key", width, width, false);
    score_ = Linear(set, name + ".score", width, 1, false);
  }
  if (spec_.range == Range::kPredictive) {
    centre_ = Linear(set, name + ".centre", width, width, false);
    centre_score_ = Linear(set, name + ".centre_score", width, 1, false);
  }
  if (!spec.recurrent) combine_ = Linear(set, name + ".combine", 2 * width, width, false);
}

std::vector<Linear*> SourceAttention::linears() {
  return {&query_, &key_, &score_, &combine_, &centre_, &centre_score_};
}

void SourceAttention::prepare(Context& ctx, Source& source) const {
  if (!key_.defined()) {
    source.keys.assign(source.by_sequence.size(), Tensor());
    return;
  }
  source.keys = ops::split(ctx, ops::cast_to_f32(ctx, key_(ctx, source.rows)), source.lengths, 0);
}

Tensor SourceAttention::scores(Context& ctx, const Tensor& queries, const Tensor& source,
                               const Tensor& keys) const {
  const int64_t rows = queries.dim(0), length = source.dim(0);
  if (spec_.score == Score::kDot) return ops::matmul(ctx, queries, source, true);
  const Tensor q = linear_of_sequence(ctx, query_, queries);
  if (spec_.score == Score::kGeneral) return ops::matmul(ctx, q, source, true);
  if (spec_.score == Score::kLocation) {
    check(length <= spec_.positions, "the source is longer than the positions of location attention");
    return length == spec_.positions ? q : ops::split(ctx, q, {length, spec_.positions - length}, -1)[0];
  }
  const Tensor pairs = ops::add(ctx, repeat_rows(ctx, q, length, true), repeat_rows(ctx, keys, rows, false));
  return ops::reshape(ctx, linear_of_sequence(ctx, score_, ops::activate(ctx, pairs, Activation::kTanh)),
                      {rows, length});
}

Tensor SourceAttention::local_weights(Context& ctx, const Tensor& queries, const Tensor& scores,
                                      int64_t past) const {
  const int64_t rows = scores.dim(0), length = scores.dim(1);
  const auto half_window = static_cast<float>(spec_.half_window);
  Tensor centre;  // [rows, 1]
  if (spec_.range == Range::kPredictive) {
    const Tensor inner = ops::activate(ctx, linear_of_sequence(ctx, centre_, queries), Activation::kTanh);
    const Tensor share =
        ops::activate(ctx, linear_of_sequence(ctx, centre_score_, inner), Activation::kSigmoid);
    centre = ops::scale(ctx, share, static_cast<float>(length - 1));
  }
  const Tensor host_centre = centre.defined() ? centre.host() : Tensor();
  std::vector<float> mask, positions;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t s = 0; s < length; ++s) {
      const float middle =
          host_centre.defined() ? host_centre.f32()[i] : static_cast<float>(std::min(past + i, length - 1));
      mask.push_back(std::fabs(static_cast<float>(s) - middle) <= half_window ? 0.0f : kMasked);
      positions.push_back(static_cast<float>(s));
    }
  const Tensor weights = ops::softmax(ctx, ops::add(ctx, scores, constant(ctx, {rows, length}, mask)));
  if (!centre.defined()) return weights;
  // A Gaussian around the predicted position, with a standard deviation of half_window / 2.
  const Tensor ones = constant(ctx, {1, length}, std::vector<float>(static_cast<size_t>(length), 1.0f));
  const Tensor distance =
      ops::subtract(ctx, ops::matmul(ctx, centre, ones), constant(ctx, {rows, length}, positions));
  const float factor = -2.0f / std::max(half_window * half_window, 1.0f);
  const Tensor curve = ops::activate(
      ctx, ops::scale(ctx, ops::activate(ctx, distance, Activation::kSquare), factor), Activation::kExp);
  return ops::multiply(ctx, weights, curve);
}

Tensor SourceAttention::weights(Context& ctx, const Tensor& queries, const Tensor& source, const Tensor& keys,
                                int64_t past) const {
  const Tensor s = scores(ctx, queries, source, keys);
  return spec_.range == Range::kGlobal ? ops::softmax(ctx, s) : local_weights(ctx, queries, s, past);
}

Tensor SourceAttention::step(Context& ctx, const Tensor& queries, const Source& source,
                             std::span<const int64_t> active, AlignmentRecord& record) const {
  const auto query_rows = ops::split(ctx, queries, std::vector<int64_t>(active.size(), 1), 0);
  std::vector<Tensor> contexts;
  for (size_t i = 0; i < active.size(); ++i) {
    const auto s = static_cast<size_t>(active[i]);
    // The adapters of a step are those of its rows.
    const GatheredAdapters scope(
        ctx, ctx.row_adapters.empty() ? std::vector<int32_t>() : std::vector<int32_t>{ctx.row_adapters[i]});
    const Tensor w = weights(ctx, query_rows[i], source.by_sequence[s], source.keys[s], 0);
    record.add(s, w);
    contexts.push_back(ops::matmul(ctx, w, source.by_sequence[s]));
  }
  return contexts.size() == 1 ? contexts[0] : ops::concat(ctx, contexts, 0);
}

Tensor SourceAttention::operator()(ForwardContext& f, const Tensor& x, const AttentionInputs& in,
                                   int64_t layer) const {
  Context& ctx = f.ops;
  const Tensor rows = ops::cast_to_f32(ctx, x);
  Source source = source_of(f, in, cache_spec_, width_, layer);
  const std::vector<int32_t> adapters = sequence_adapters(ctx, in.self);
  {
    const GatheredAdapters scope(ctx, source_adapters(ctx, in.self, source.lengths));
    prepare(ctx, source);
  }
  std::vector<int64_t> lengths;
  for (const ops::SequenceRows& s : in.self.rows) lengths.push_back(s.q_rows);
  const auto queries = ops::split(ctx, rows, lengths, 0);
  AlignmentRecord record(f);
  std::vector<Tensor> contexts;
  for (size_t i = 0; i < queries.size(); ++i) {
    const GatheredAdapters scope(
        ctx, adapters.empty() ? std::vector<int32_t>() : std::vector<int32_t>{adapters[i]});
    const Tensor w = weights(ctx, queries[i], source.by_sequence[i], source.keys[i], in.self.rows[i].past);
    record.add(i, w);
    contexts.push_back(ops::matmul(ctx, w, source.by_sequence[i]));
  }
  record.finish();
  const Tensor context = contexts.size() == 1 ? contexts[0] : ops::concat(ctx, contexts, 0);
  return ops::activate(ctx, ops::cast_to_f32(ctx, combine_(ctx, ops::concat(ctx, {context, rows}, -1))),
                       Activation::kTanh);
}

}  // namespace makar
