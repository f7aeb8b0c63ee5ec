#include "nn/stack.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/checkpoint.h"
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
    : spec_(spec),
      embedding_(set, spec.name + ".embed", spec.width, spec.embedding, spec.block.norm, tokens) {
  const int64_t distinct = spec.groups > 0 ? spec.groups : spec.layers;
  for (int64_t i = 0; i < distinct; ++i)
    blocks_.emplace_back(set, fmt::format("{}.layers.{}", spec.name, i), spec.width, spec.block);
  const AttentionSpec& a = spec.block.attention;
  if (a.bias == BiasKind::kT5)
    t5_bias_ = set.add(spec.name + ".relative_bias.weight", {a.t5_buckets, a.heads});
  if (a.bias == BiasKind::kAlibi) alibi_ = alibi_slopes(a.heads);
  if (spec.final_norm) final_norm_ = Norm(set, spec.name + ".norm", spec.width, spec.block.norm);
  if (spec.project_out > 0)
    project_out_ = Linear(set, spec.name + ".project_out", spec.width, spec.project_out, false);
}

namespace {

// Cosines and sines per token; dynamic scaling depends on the length of each sequence.
ops::RopeTable make_rope(Context& ctx, const ops::RopeOptions& options, const Batch& batch) {
  if (options.scaling != ops::RopeScaling::kDynamic)
    return ops::rope_table(ctx, batch.positions, ops::rope_angles(options, 0));
  std::vector<Tensor> cos, sin;
  Context plain{ctx.device};
  for (const Sequence& s : batch.sequences) {
    if (s.length == 0) continue;
    const std::span<const int64_t> at(batch.positions.data() + s.start, static_cast<size_t>(s.length));
    const auto table = ops::rope_table(plain, at, ops::rope_angles(options, at.back() + 1));
    cos.push_back(table.cos), sin.push_back(table.sin);
  }
  return {ops::concat(plain, cos, 0), ops::concat(plain, sin, 0)};
}

// Appends a sequence's pages to a page table; returns the index of the first.
int64_t append(std::vector<int64_t>& table, const std::vector<int64_t>& pages) {
  const auto first = static_cast<int64_t>(table.size());
  table.insert(table.end(), pages.begin(), pages.end());
  return first;
}

}  // namespace

ops::AttentionBatch Stack::self_batch(ForwardContext& f, const Batch& batch) const {
  const AttentionSpec& a = spec_.block.attention;
  ops::DistanceBias bias;
  bias.slopes = alibi_;
  bias.factor = a.alibi_scale;
  bias.rounded_by_key = a.alibi_rounded;
  if (t5_bias_) {
    bias.table = t5_bias_->value;
    bias.bidirectional = !a.causal;
    bias.max_distance = a.t5_max_distance;
  }
  std::vector<ops::SequenceRows> rows;
  if (!f.cache) {
    for (const Sequence& s : batch.sequences)
      rows.push_back({s.start, s.length, s.start, s.length - s.unseen, 0, 0});
    return ops::attention_batch(f.ops, std::move(rows), a.heads, bias);
  }
  std::vector<int64_t> table;
  for (const Sequence& s : batch.sequences) {
    const bool reserved = f.cache->grow(s.slot, s.past + s.length);
    check(reserved, "the caller must reserve cache pages before running a batch");
    rows.push_back(
        {s.start, s.length, 0, s.past + s.length, s.past, append(table, f.cache->page_addresses(s.slot))});
  }
  // With sinks, no key is further away than sinks + window.
  const bool windows =
      std::any_of(spec_.windows.begin(), spec_.windows.end(), [](int64_t w) { return w > 0; });
  const int64_t furthest = f.stream.sinks > 0 && !windows ? f.stream.sinks + f.stream.window : 0;
  ops::AttentionBatch made = ops::attention_batch(f.ops, std::move(rows), a.heads, bias, furthest);
  made.pages = f.ops.upload(table);
  return made;
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
  ops::AttentionBatch made = ops::attention_batch(f.ops, std::move(rows), spec_.block.cross->heads);
  if (f.cache) made.pages = f.ops.upload(table);
  return made;
}

const Block& Stack::block(int64_t layer) const {
  return blocks_[static_cast<size_t>(spec_.groups > 0 ? layer * spec_.groups / spec_.layers : layer)];
}

void Stack::read_source(ForwardContext& f, const Tensor& encoded, size_t slot) const {
  for (int64_t layer = 0; layer < spec_.layers; ++layer) block(layer).cross.remember(f, encoded, slot, layer);
}

Tensor Stack::operator()(ForwardContext& f, const Batch& batch, const Tensor& encoded,
                         const Batch* encoder_batch) const {
  Context& ctx = f.ops;
  AttentionInputs in;
  in.self = self_batch(f, batch);
  if (spec_.block.cross) in.cross = cross_batch(f, batch, encoded, encoder_batch);
  in.encoded = encoded;
  if (spec_.block.attention.rope) in.rope = make_rope(ctx, *spec_.block.attention.rope, batch);
  if (spec_.block.attention.rope && f.stream.sinks > 0) {
    const int64_t last = f.stream.sinks + f.stream.window - 1;
    std::vector<int64_t> near = batch.positions;
    for (int64_t& at : near) at = std::min(at, last);
    if (near != batch.positions)
      in.sink_rope = ops::rope_table(ctx, near, ops::rope_angles(*spec_.block.attention.rope, 0));
  }
  const bool again = f.checkpoint && ctx.tape;  // recompute blocks in the backward pass
  Tensor x = embedding_(f, batch);
  const auto note = [&](const Tensor& t) {
    if (f.record && f.record->hidden) f.record->hidden_states.push_back(t);
  };
  note(x);
  for (int64_t layer = 0; layer < spec_.layers; ++layer) {
    const int64_t window = spec_.windows.empty() ? 0 : spec_.windows[static_cast<size_t>(layer)];
    const Block& block = this->block(layer);
    if (again) {
      // Return the router probabilities from the checkpointed block as additional columns, so that the
      // load-balancing loss has a gradient.
      const auto routing = std::make_shared<Record>();
      const bool routed = f.record && spec_.block.feed_forward.experts > 0;
      x = ops::checkpoint(
          ctx, {x, encoded},
          [&block, in, layer, window, routed, routing](Context& c, const std::vector<Tensor>& t) {
            *routing = {};
            ForwardContext inner{c, nullptr, routed ? routing.get() : nullptr, false};
            AttentionInputs mine = in;
            mine.encoded = t[1];
            const Tensor y = block(inner, t[0], mine, layer, window);
            return routed ? ops::concat(c, {y, routing->router_probabilities[0]}, -1) : y;
          });
      if (routed) {
        const auto parts = ops::split(ctx, x, {spec_.width, spec_.block.feed_forward.experts}, -1);
        x = parts[0];
        f.record->router_probabilities.push_back(parts[1]);
        f.record->router_choices.push_back(routing->router_choices[0]);
      }
    } else {
      x = block(f, x, in, layer, window);
    }
    if (layer + 1 < spec_.layers || spec_.record_before_norm) note(x);
  }
  if (final_norm_.defined()) x = final_norm_(ctx, x);
  if (project_out_.defined()) x = project_out_(ctx, x);
  if (!spec_.record_before_norm) note(x);
  return x;
}

}  // namespace makar
