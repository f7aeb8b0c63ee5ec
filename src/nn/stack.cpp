#include "nn/stack.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "ops/checkpoint.h"
#include "ops/embedding.h"
#include "ops/shape.h"

namespace makar {

std::vector<float> alibi_slopes(int64_t heads) {
  const int64_t power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<float> slopes;
  const double base = std::pow(2.0, -8.0 / static_cast<double>(power));
  for (int64_t i = 1; i <= power; ++i)
    slopes.push_back(static_cast<float>(std::pow(base, static_cast<double>(i))));
  const double extra = std::pow(2.0, -4.0 / static_cast<double>(power));
  for (int64_t i = 1; static_cast<int64_t>(slopes.size()) < heads; i += 2)
    slopes.push_back(static_cast<float>(std::pow(extra, static_cast<double>(i))));
  return slopes;
}

Stack::Stack(ParameterSet& set, const StackSpec& spec, Parameter* tokens)
    : spec_(spec), embedding_(set, spec.name + ".embed", spec.width, spec.embedding, spec.norm, tokens) {
  const int64_t layers = spec.layers();
  for (int64_t i = 0; i < layers; ++i)
    if (const int64_t at = spec.weights_of(i); at == static_cast<int64_t>(blocks_.size()))
      blocks_.emplace_back(set, fmt::format("{}.layers.{}", spec.name, at), spec.width,
                           spec.blocks[static_cast<size_t>(i)], spec.norm);
  for (const BlockSpec& b : spec.blocks) positions_of_.push_back(positions_for(set, b.attention));
  if (const auto& r = spec.first().attention.relative; r && r->kind == RelativeSpec::Kind::kDisentangled) {
    relative_ = set.add(spec.name + ".relative.weight", {2 * r->span, spec.width});
    if (r->norm) relative_norm_ = Norm(set, spec.name + ".relative_norm", spec.width, spec.norm);
  }
  if (spec.convolution)
    convolution_ = Convolution(set, spec.name + ".conv", spec.width, *spec.convolution, spec.norm);
  if (spec.final_norm) final_norm_ = Norm(set, spec.name + ".norm", spec.width, spec.norm);
  if (spec.project_out > 0)
    project_out_ = Linear(set, spec.name + ".project_out", spec.width, spec.project_out, false);
  if (spec.mix != ScalarMixKind::kNone)
    mix_ = ScalarMix(set, spec.name + ".mix", layers + 1, spec.mix == ScalarMixKind::kLearned);
}

size_t Stack::positions_for(ParameterSet& set, const AttentionSpec& a) {
  for (size_t i = 0; i < positions_.size(); ++i) {
    const AttentionSpec& b = positions_[i].attention;
    if (a.rope == b.rope && a.bias == b.bias && !a.bias_per_layer &&
        (a.bias == BiasKind::kNone || a.heads == b.heads))
      return i;
  }
  Positions& entry = positions_.emplace_back();
  entry.attention = a;
  if (a.bias == BiasKind::kT5)
    entry.t5_bias = set.add(a.bias_per_layer ? fmt::format("{}.layers.{}.attn.relative_bias.weight",
                                                           spec_.name, positions_of_.size())
                                             : spec_.name + ".relative_bias.weight",
                            {a.t5_buckets, a.heads});
  if (a.bias == BiasKind::kAlibi) entry.alibi = alibi_slopes(a.heads);
  if (spec_.rotary_rows > 0) {
    entry.rotary = set.add(spec_.name + ".rotary.weight", {spec_.rotary_rows, a.rope->rotary});
    entry.rotary->value = ops::sinusoidal_positions(spec_.rotary_rows, a.rope->rotary);
    entry.rotary->buffer = entry.rotary->optional = true;
  }
  return positions_.size() - 1;
}

ops::DistanceBias Stack::bias_of(const Positions& positions) const {
  const AttentionSpec& a = positions.attention;
  ops::DistanceBias bias;
  bias.slopes = positions.alibi;
  bias.factor = a.alibi_scale;
  bias.rounded_by_key = a.alibi_rounded;
  if (positions.t5_bias) {
    bias.table = positions.t5_bias->value;
    bias.bidirectional = !a.causal;
    bias.max_distance = a.t5_max_distance;
  }
  return bias;
}

namespace {

// Cosines and sines per token; some kinds of scaling depend on the length of each sequence.
ops::RopeTable make_rope(Context& ctx, const ops::RopeOptions& options, const Batch& batch) {
  if (batch.on_device)
    return ops::rope_table(ctx, batch.on_device->positions, ops::rope_frequencies(options, 0));
  if (!ops::depends_on_length(options))
    return ops::rope_table(ctx, batch.positions, ops::rope_frequencies(options, 0));
  std::vector<Tensor> cos, sin;
  Context no_tape{ctx.device};
  for (const Sequence& s : batch.sequences) {
    if (s.length == 0) continue;
    const std::span<const int64_t> at(batch.positions.data() + s.start, static_cast<size_t>(s.length));
    const auto table =
        ops::rope_table(no_tape, at, ops::rope_frequencies(options, std::max(s.total, at.back() + 1)));
    cos.push_back(table.cos), sin.push_back(table.sin);
  }
  return {ops::concat(no_tape, cos, 0), ops::concat(no_tape, sin, 0)};
}

// Appends a sequence's pages to a page table; returns the index of the first.
int64_t append(std::vector<int64_t>& table, const std::vector<int64_t>& pages) {
  const auto first = static_cast<int64_t>(table.size());
  table.insert(table.end(), pages.begin(), pages.end());
  return first;
}

}  // namespace

ops::RopeTable Stack::rope_of(ForwardContext& f, const Positions& positions, const Batch& batch) const {
  if (!positions.rotary) return make_rope(f.ops, *positions.attention.rope, batch);
  Context no_tape{f.ops.device};
  const Tensor rows = ops::embedding(no_tape, positions.rotary->value, batch.positions);
  const auto halves = ops::split(no_tape, rows, {rows.dim(1) / 2, rows.dim(1) / 2}, -1);
  return {halves[1], halves[0]};
}

ops::AttentionBatch Stack::self_batch(ForwardContext& f, const Batch& batch) const {
  std::vector<ops::SequenceRows> rows;
  if (!f.cache) {
    for (const Sequence& s : batch.sequences)
      rows.push_back({s.start, s.length, s.start, s.length - s.unseen, 0, 0});
    return ops::attention_batch(f.ops, std::move(rows));
  }
  if (const DeviceRows* on_device = batch.on_device) {
    const int64_t max_keys = on_device->max_pages * KvCache::kPageRows;
    ops::AttentionBatch out;
    for (int64_t i = 0; i < batch.rows(); ++i)
      out.rows.push_back({i, 1, 0, max_keys, max_keys - 1, i * on_device->max_pages});
    out.sequences = on_device->sequences, out.pages = on_device->pages;
    return out;
  }
  std::vector<int64_t> table;
  for (const Sequence& s : batch.sequences) {
    const bool reserved = f.cache->grow(s.slot, s.past + s.length);
    check(reserved, "the caller must reserve cache pages before running a batch");
    rows.push_back(
        {s.start, s.length, 0, s.past + s.length, s.past, append(table, f.cache->page_addresses(s.slot))});
  }
  // With sinks, no key is further away than sinks + window.
  const SinkWindow& visible = f.sink_window;
  const int64_t max_key_distance =
      visible.sinks > 0 && !spec_.has_window() ? visible.sinks + visible.window : 0;
  ops::AttentionBatch attention_batch = ops::attention_batch(f.ops, std::move(rows), max_key_distance);
  attention_batch.pages = f.ops.upload(table);
  return attention_batch;
}

ops::AttentionBatch Stack::cross_batch(ForwardContext& f, const Batch& batch, const Tensor& encoded,
                                       const Batch* encoder_batch) const {
  check(!encoder_batch || encoder_batch->sequences.size() == batch.sequences.size(),
        "one encoder sequence per decoder sequence");
  std::vector<ops::SequenceRows> rows;
  std::vector<int64_t> table;
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const Sequence& s = batch.sequences[i];
    if (!f.cache) {
      check(encoder_batch, "cross-attention needs the encoder's output");
      const Sequence& e = encoder_batch->sequences[i];
      rows.push_back({s.start, s.length, e.start, e.length, 0, 0});
      continue;
    }
    if (!f.cache->has_cross(s.slot)) {
      check(encoded.defined() && encoder_batch, "cross-attention needs the encoder's output first");
      const Sequence& e = encoder_batch->sequences[i];
      read_source(f, encoded.slice(e.start, e.start + e.length), s.slot);
    }
    rows.push_back({s.start, s.length, 0, f.cache->cross_length(s.slot), 0,
                    append(table, f.cache->cross_page_addresses(s.slot))});
  }
  ops::AttentionBatch attention_batch = ops::attention_batch(f.ops, std::move(rows));
  if (f.cache) attention_batch.pages = f.ops.upload(table);
  return attention_batch;
}

bool Stack::reads_device_rows() const {
  const EmbeddingSpec& e = spec_.embedding;
  const bool plain_embedding = !e.patches && e.types == 0 && e.position_offset == 0;
  const auto plain = [](const BlockSpec& b) {
    const AttentionSpec& a = b.attention;
    return !b.mixer && !b.recurrent && !b.alignment && !b.cross && a.bias == BiasKind::kNone && !a.relative &&
           !(a.rope && ops::depends_on_length(*a.rope));
  };
  const auto without_host = [](const Block& b) {
    return b.feed_forward.expert_count() == 0 || b.feed_forward.routes_on_device();
  };
  return std::ranges::all_of(blocks_, without_host) && plain_embedding && !relative_ &&
         !convolution_.defined() && !mix_.defined() && spec_.rotary_rows == 0 &&
         std::all_of(spec_.blocks.begin(), spec_.blocks.end(), plain);
}

const Block& Stack::block(int64_t layer) const {
  return blocks_[static_cast<size_t>(spec_.weights_of(layer))];
}

void Stack::read_source(ForwardContext& f, const Tensor& encoded, size_t slot) const {
  for (int64_t layer = 0; layer < spec_.layers(); ++layer) block(layer).cache_source(f, encoded, slot, layer);
}

// The table in f32; files may store it in f16 or bf16.
Tensor Stack::relative_table(Context& ctx) const {
  if (relative_->value.dtype() == DType::kF32) return relative_->value;
  std::vector<int64_t> rows(static_cast<size_t>(relative_->value.dim(0)));
  std::iota(rows.begin(), rows.end(), 0);
  return ops::embedding(ctx, relative_->value, rows);
}

std::vector<AttentionInputs> Stack::inputs(ForwardContext& f, const Batch& batch, const Tensor& encoded,
                                           const Batch* encoder_batch) const {
  Context& ctx = f.ops;
  AttentionInputs shared;
  shared.self = self_batch(f, batch);
  if (spec_.first().cross) shared.cross = cross_batch(f, batch, encoded, encoder_batch);
  shared.encoded = encoded;
  if (relative_) {
    const Tensor table = relative_table(ctx);
    shared.relative = relative_norm_.defined() ? relative_norm_(ctx, table) : table;
  }
  if (spec_.first().attention.relative) shared.types = batch.types;
  if (!batch.order.empty()) {
    check(shared.self.rows.size() > 0 && spec_.first().attention.relative &&
              spec_.first().attention.relative->kind == RelativeSpec::Kind::kXl,
          "a permuted order needs XLNet's attention");
    shared.order = batch.order, shared.positions = batch.positions;
  }
  // Positions that rotate queries for attention to sinks: at most sinks + window - 1.
  std::vector<int64_t> sink_positions = batch.positions;
  const bool sinks = f.sink_window.sinks > 0;
  if (sinks)
    for (int64_t& at : sink_positions) at = std::min(at, f.sink_window.sinks + f.sink_window.window - 1);
  std::vector<AttentionInputs> out;
  for (const Positions& positions : positions_) {
    AttentionInputs& in = out.emplace_back(shared);
    if (const ops::DistanceBias bias = bias_of(positions); bias.defined())
      ops::add_bias(ctx, in.self, positions.attention.heads, bias);
    const auto& rope = positions.attention.rope;
    if (!rope) continue;
    in.rope = rope_of(f, positions, batch);
    if (sinks && sink_positions != batch.positions)
      in.sink_rope = ops::rope_table(ctx, sink_positions, ops::rope_frequencies(*rope, 0));
  }
  return out;
}

// Keeps only the block's input; the backward pass runs the block again. The block returns the router
// probabilities as additional columns, so that the load-balancing loss has a gradient.
Tensor Stack::run_checkpointed(ForwardContext& f, const Tensor& x, const AttentionInputs& in,
                               int64_t layer) const {
  const Block& block = this->block(layer);
  const int64_t experts = spec_.blocks[static_cast<size_t>(layer)].feed_forward.experts;
  const auto routing = std::make_shared<Record>();
  const bool routed = f.record && experts > 0;
  const Tensor y =
      ops::checkpoint(f.ops, {x, in.encoded, in.relative},
                      [&block, in, layer, routed, routing](Context& c, const std::vector<Tensor>& t) {
                        *routing = {};
                        ForwardContext inner{c, nullptr, routed ? routing.get() : nullptr, false};
                        AttentionInputs block_inputs = in;
                        block_inputs.encoded = t[1];
                        block_inputs.relative = t[2];
                        const Tensor out = block(inner, {t[0], {}}, block_inputs, layer).value;
                        return routed ? ops::concat(c, {out, routing->router_probabilities[0]}, -1) : out;
                      });
  if (!routed) return y;
  const auto parts = ops::split(f.ops, y, {spec_.width, experts}, -1);
  f.record->router_probabilities.push_back(parts[1]);
  f.record->router_choices.push_back(routing->router_choices[0]);
  return parts[0];
}

Tensor Stack::operator()(ForwardContext& f, const Batch& batch, const Tensor& encoded,
                         const Batch* encoder_batch) const {
  if (!mix_.defined()) return run(f, batch, encoded, encoder_batch, nullptr);
  std::vector<Tensor> states;
  run(f, batch, encoded, encoder_batch, &states);
  return mix_(f.ops, states);
}

Tensor Stack::run(ForwardContext& f, const Batch& batch, const Tensor& encoded, const Batch* encoder_batch,
                  std::vector<Tensor>* states) const {
  Context& ctx = f.ops;
  const std::vector<AttentionInputs> by_positions = inputs(f, batch, encoded, encoder_batch);
  Tensor x = embedding_(f, batch);
  const Tensor embedded = convolution_.defined() ? x : Tensor();
  Tensor normed;  // the norm of x that comes next, where a block has computed it
  const auto record_hidden = [&](const Tensor& t) {
    if (f.record && f.record->hidden) f.record->hidden_states.push_back(t);
  };
  if (!spec_.record_outputs) record_hidden(x);
  if (states) states->push_back(x);
  for (int64_t layer = 0; layer < spec_.layers(); ++layer) {
    const AttentionInputs& in = by_positions[positions_of_[static_cast<size_t>(layer)]];
    if (f.checkpoint && ctx.tape) {
      x = run_checkpointed(f, x, in, layer), normed = {};
    } else {
      const Norm* next = layer == 0 && convolution_.defined() ? nullptr
                         : layer + 1 < spec_.layers()         ? block(layer + 1).first_norm()
                                                              : &final_norm_;
      const Residual y = block(layer)(f, {x, normed}, in, layer, next);
      x = y.value, normed = y.normed;
    }
    if (layer == 0 && convolution_.defined())
      x = convolution_(ctx, embedded, x, batch, spec_.first().dropout), normed = {};
    if (states) states->push_back(x);
    if (layer + 1 < spec_.layers() || spec_.record_before_norm || spec_.record_outputs) record_hidden(x);
  }
  if (final_norm_.defined()) x = normed.defined() ? normed : final_norm_(ctx, x);
  if (project_out_.defined()) x = project_out_(ctx, x);
  if (!spec_.record_before_norm) record_hidden(x);
  return x;
}

}  // namespace makar
