#include "nn/stack.h"

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

// Cosines and sines of every token; dynamic scaling looks at each sequence's own length.
ops::RopeTable make_rope(Context& ctx, const ops::RopeOptions& options, const Batch& batch) {
  if (options.scaling != ops::RopeScaling::kDynamic)
    return ops::rope_table(ctx, batch.positions, ops::rope_angles(options, 0));
  std::vector<Tensor> cos, sin;
  Context plain{ctx.pool};
  for (const Sequence& s : batch.sequences) {
    if (s.length == 0) continue;
    const std::span<const int64_t> at(batch.positions.data() + s.start, static_cast<size_t>(s.length));
    const auto table = ops::rope_table(plain, at, ops::rope_angles(options, at.back() + 1));
    cos.push_back(table.cos), sin.push_back(table.sin);
  }
  return {ops::concat(plain, cos, 0), ops::concat(plain, sin, 0)};
}

}  // namespace

const Block& Stack::block(int64_t layer) const {
  return blocks_[static_cast<size_t>(spec_.groups > 0 ? layer * spec_.groups / spec_.layers : layer)];
}

void Stack::read_source(ForwardContext& f, const Tensor& encoded, size_t slot) const {
  for (int64_t layer = 0; layer < spec_.layers; ++layer) block(layer).cross.remember(f, encoded, slot, layer);
}

Tensor Stack::operator()(ForwardContext& f, const Batch& batch, const Tensor& encoded,
                         const Batch* encoder_batch) const {
  Context& ctx = f.ops;
  if (f.cache)
    for (const Sequence& s : batch.sequences)
      check(f.cache->grow(s.slot, s.past + s.length), "whoever runs a batch sees to its pages first");
  AttentionInputs in;
  in.batch = &batch, in.encoded = encoded, in.encoder_batch = encoder_batch;
  if (spec_.block.attention.rope) in.rope = make_rope(ctx, *spec_.block.attention.rope, batch);
  if (spec_.block.attention.rope && f.stream.sinks > 0) {
    const int64_t last = f.stream.sinks + f.stream.window - 1;
    std::vector<int64_t> near = batch.positions;
    for (int64_t& at : near) at = std::min(at, last);
    if (near != batch.positions)
      in.sink_rope = ops::rope_table(ctx, near, ops::rope_angles(*spec_.block.attention.rope, 0));
  }
  in.bias.slopes = alibi_;
  in.bias.factor = spec_.block.attention.alibi_scale;
  in.bias.rounded_by_key = spec_.block.attention.alibi_rounded;
  if (t5_bias_) {
    in.bias.table = t5_bias_->value;
    in.bias.bidirectional = !spec_.block.attention.causal;
    in.bias.max_distance = spec_.block.attention.t5_max_distance;
  }
  // Blocks that run again in the backward pass need their batches then, when the caller's may be gone.
  const bool again = f.checkpoint && ctx.tape;
  const auto kept = again ? std::make_shared<const Batch>(batch) : nullptr;
  const auto kept_encoder = again && encoder_batch ? std::make_shared<const Batch>(*encoder_batch) : nullptr;
  Tensor x = embedding_(f, batch);
  const auto note = [&](const Tensor& t) {
    if (f.record && f.record->hidden) f.record->hidden_states.push_back(t);
  };
  note(x);
  for (int64_t layer = 0; layer < spec_.layers; ++layer) {
    const int64_t window = spec_.windows.empty() ? 0 : spec_.windows[static_cast<size_t>(layer)];
    const Block& block = this->block(layer);
    if (again) {
      // What a router decided comes out beside the rows, so that its balance has a gradient too.
      const auto routing = std::make_shared<Record>();
      const bool routed = f.record && spec_.block.feed_forward.experts > 0;
      x = ops::checkpoint(ctx, {x, encoded},
                          [&block, in, kept, kept_encoder, layer, window, routed, routing](
                              Context& c, const std::vector<Tensor>& t) {
                            *routing = {};
                            ForwardContext inner{c, nullptr, routed ? routing.get() : nullptr, false};
                            AttentionInputs mine = in;
                            mine.batch = kept.get(), mine.encoder_batch = kept_encoder.get(),
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
