#include "models/model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "nn/gathered_adapters.h"
#include "ops/bf16.h"
#include "ops/linear.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {

Batch pixel_batch(const ModelSpec& spec, const Tensor& pixels) {
  Batch batch;
  batch.pixels = pixels;
  const int64_t rows = spec.image_rows();
  for (int64_t i = 0; i < pixels.dim(0); ++i) {
    batch.sequences.push_back({i * rows, rows, 0, static_cast<size_t>(i)});
    for (int64_t t = 0; t < rows; ++t) batch.positions.push_back(t);
  }
  return batch;
}

Model::Model(ModelSpec spec, Parameter* tokens) : spec_(std::move(spec)) {
  if (spec_.encoder) encoder_ = std::make_unique<Stack>(set_, *spec_.encoder, tokens);
  if (spec_.decoder) {
    Parameter* shared = encoder_ && spec_.shared_tokens ? encoder_->tokens() : nullptr;
    decoder_ = std::make_unique<Stack>(set_, *spec_.decoder, shared);
  }
  if (const auto& e = spec_.encoder;
      e && e->first().attention.relative && e->first().attention.relative->kind == RelativeSpec::Kind::kXl)
    mask_ = set_.add("encoder.mask", {1, 1, e->width});
  make_heads();
}

void Model::make_heads() {
  const HeadSpec& h = spec_.head;
  const StackSpec& body = spec_.main();
  const int64_t width = body.width;
  const bool lm = h.kind == HeadKind::kCausalLm || h.kind == HeadKind::kMaskedLm ||
                  h.kind == HeadKind::kPretraining || h.kind == HeadKind::kBidirectionalLm;
  if (h.transform) {
    transform_ = Linear(set_, "head.transform", width, h.transform_width, h.transform_bias);
    transform_norm_ = Norm(set_, "head.transform_norm", h.transform_width, body.norm);
  }
  if (lm) {
    const int64_t output_width = h.kind == HeadKind::kBidirectionalLm ? width / 2 : width;
    const int64_t in = h.transform ? h.transform_width : (body.project_out ? body.project_out : output_width);
    Parameter* table = (decoder_ ? decoder_ : encoder_)->tokens();
    Parameter* weight = h.tied ? table : set_.add("head.lm.weight", {spec_.vocab, in});
    Parameter* bias = nullptr;
    if (h.lm_bias) bias = set_.add("head.lm.bias", {spec_.vocab});
    if (h.lm_offset) bias = set_.add("head.lm.bias", {1, spec_.vocab}), bias->buffer = true;
    lm_ = Linear(weight, bias);
  }
  if (spec_.is_encoder_decoder() && spec_.encoder->width != width)
    bridge_ = Linear(set_, "head.bridge", spec_.encoder->width, width, true);
  if (const auto& p = spec_.image_input) {
    project1_ = Linear(set_, "head.project1", spec_.encoder->width, width, p->bias);
    project2_ = Linear(set_, "head.project2", width, width, p->bias);
  }
  if (h.kind == HeadKind::kContrastive) {
    text_projection_ = Linear(set_, "head.text", width, h.projection, false);
    image_projection_ = Linear(set_, "head.image", spec_.encoder->width, h.projection, false);
    logit_scale_ = set_.add("head.scale", {});
  }
  if (h.pooler) pooler_ = Linear(set_, "head.pooler", width, width, true);
  switch (h.kind) {
    case HeadKind::kPretraining:
      second_ = Linear(set_, "head.next_sentence", width, 2, true);
      break;
    case HeadKind::kSequenceClass:
    case HeadKind::kReplacedToken:
      if (h.classifier_dense) classifier_dense_ = Linear(set_, "head.dense", width, width, true);
      [[fallthrough]];
    case HeadKind::kTokenClass:
    case HeadKind::kImageClass:
    case HeadKind::kImageClassTeacher:
      classifier_ = Linear(set_, "head.classifier", width, h.labels, h.classifier_bias);
      if (h.kind == HeadKind::kImageClassTeacher)
        second_ = Linear(set_, "head.distillation", width, h.labels, true);
      break;
    case HeadKind::kQuestion:
      classifier_ = Linear(set_, "head.answer", width, 2, true);
      break;
    default:
      break;
  }
}

Tensor Model::encode(ForwardContext& f, const Batch& source) const {
  ForwardContext encoder_context{f.ops, nullptr, f.record, f.checkpoint};  // the cache belongs to the decoder
  return (*encoder_)(encoder_context, source);
}

Tensor Model::decode(ForwardContext& f, const Batch& target, const Tensor& encoded,
                     const Batch* source) const {
  const bool needs_bridge = encoded.defined() && bridge_.defined();
  return (*decoder_)(f, target, needs_bridge ? bridge_(f.ops, encoded) : encoded, source);
}

void Model::read_source(ForwardContext& f, const Batch& source, size_t slot) const {
  const Tensor encoded = encode(f, source);
  decoder_->read_source(f, bridge_.defined() ? bridge_(f.ops, encoded) : encoded, slot);
}

Tensor Model::hidden(ForwardContext& f, const Inputs& inputs, Record* encoder_record) const {
  if (spec_.head.kind == HeadKind::kBidirectionalLm) return encoder_->top(f, inputs.source);
  if (!decoder_) return encode(f, inputs.source);
  if (!encoder_) return (*decoder_)(f, inputs.source);
  if (spec_.head.kind == HeadKind::kContrastive) return (*decoder_)(f, inputs.target);
  if (spec_.image_input && inputs.target.tokens.empty()) return (*decoder_)(f, inputs.source);  // only text
  if (spec_.image_input) {
    Batch target = inputs.target;
    target.features = image_rows(f, inputs.source);
    return (*decoder_)(f, target);
  }
  ForwardContext encoder_context{f.ops, nullptr, encoder_record, f.checkpoint};
  const Tensor encoded = encode(encoder_context, inputs.source);
  return decode(f, inputs.target, encoded, &inputs.source);
}

Tensor Model::image_rows(ForwardContext& f, const Batch& images) const {
  Context& ctx = f.ops;
  Record record;
  record.hidden = true;
  ForwardContext encoder_context{ctx, nullptr, &record, f.checkpoint};
  encode(encoder_context, images);
  const ImageInputSpec& p = *spec_.image_input;
  const Tensor& states = record.hidden_states.at(record.hidden_states.size() + static_cast<size_t>(p.layer));
  std::vector<int64_t> selected_rows;
  for (const Sequence& s : images.sequences)
    for (int64_t i = p.skip_class ? 1 : 0; i < s.length; ++i) selected_rows.push_back(s.start + i);
  std::vector<int32_t> adapters;
  if (!ctx.row_adapters.empty())
    for (const int64_t row : selected_rows) adapters.push_back(ctx.row_adapters[static_cast<size_t>(row)]);
  const GatheredAdapters gathered_adapters(ctx, std::move(adapters));
  const Tensor rows = project1_(ctx, ops::gather_rows(ctx, states, selected_rows));
  return ops::cast_to_f32(ctx, project2_(ctx, ops::activate(ctx, rows, p.activation)));
}

namespace {

Tensor unit_rows(Context& ctx, const Tensor& x) {
  return ops::scale_rows(ctx, x, ops::row_norms(ctx, x, true));
}

}  // namespace

Tensor Model::text_vectors(Context& ctx, const Tensor& hidden, const Batch& texts) const {
  // A text is represented by the row of its end token. As in transformers, eos 2 (older configs) means the
  // token with the largest id.
  std::vector<int64_t> ends;
  const int64_t eos = spec_.eos.empty() ? 2 : spec_.eos[0];
  for (const Sequence& s : texts.sequences) {
    const auto first = texts.tokens.begin() + s.start, last = first + s.length;
    const auto end = eos == 2 ? std::max_element(first, last) : std::find(first, last, eos);
    ends.push_back(s.start + (end == last ? 0 : end - first));
  }
  return unit_rows(ctx, text_projection_(ctx, ops::gather_rows(ctx, hidden, ends)));
}

Tensor Model::image_vectors(ForwardContext& f, const Batch& images) const {
  const Tensor rows = encode(f, images);
  std::vector<int64_t> classes;
  for (const Sequence& s : images.sequences) classes.push_back(s.start);
  return unit_rows(f.ops, image_projection_(f.ops, ops::gather_rows(f.ops, rows, classes)));
}

Tensor Model::contrast(Context& ctx, const Tensor& images, const Tensor& texts) const {
  return ops::scale(ctx, ops::linear(ctx, images, texts), std::exp(logit_scale_->value.host().f32()[0]));
}

Tensor Model::mask_rows(Context& ctx, int64_t count) const {
  check(mask_, "mask_rows() needs a model with XLNet's mask vector");
  const Tensor row = ops::reshape(ctx, mask_->value, {1, spec_.encoder->width});
  return ops::gather_rows(ctx, row, std::vector<int64_t>(static_cast<size_t>(count), 0));
}

Tensor Model::transformed(Context& ctx, const Tensor& x) const {
  if (!transform_.defined()) return x;
  return transform_norm_(ctx, ops::activate(ctx, transform_(ctx, x), spec_.head.transform_activation));
}

Tensor Model::lm_rows(Context& ctx, const Tensor& hidden) const {
  Tensor x = hidden;
  if (spec_.head.kind == HeadKind::kBidirectionalLm) x = ops::reshape(ctx, x, {2 * x.dim(0), x.dim(1) / 2});
  x = transformed(ctx, x);
  return spec_.head.scale == 1.0f ? x : ops::scale(ctx, x, spec_.head.scale);
}

Tensor Model::lm_logits(Context& ctx, const Tensor& hidden) const {
  const Tensor logits = ops::cast_to_f32(ctx, lm_(ctx, lm_rows(ctx, hidden)));
  return spec_.head.soft_cap > 0 ? ops::soft_cap(ctx, logits, spec_.head.soft_cap) : logits;
}

Tensor Model::lm_loss(Context& ctx, const Tensor& hidden, std::span<const int64_t> targets,
                      float smoothing) const {
  ops::CrossEntropyOptions options;
  options.smoothing = smoothing;
  options.soft_cap = spec_.head.soft_cap;
  // Rows without a target do not contribute to the loss, so the output layer skips them.
  std::vector<int64_t> target_rows;
  for (size_t i = 0; i < targets.size(); ++i)
    if (targets[i] != ops::kIgnore) target_rows.push_back(static_cast<int64_t>(i));
  if (!target_rows.empty() && target_rows.size() < targets.size() && hidden.dim(0) == std::ssize(targets)) {
    std::vector<int64_t> row_targets;
    for (const int64_t row : target_rows) row_targets.push_back(targets[static_cast<size_t>(row)]);
    return lm_loss(ctx, ops::gather_rows(ctx, hidden, target_rows), row_targets, smoothing);
  }
  if (lm_.adapter()) {  // linear_cross_entropy does not apply adapters
    return ops::cross_entropy(ctx, lm_logits(ctx, hidden), targets, options);
  }
  const Tensor bias = lm_.bias() ? lm_.bias()->value : Tensor();
  return ops::linear_cross_entropy(ctx, lm_rows(ctx, hidden), lm_.weight()->value, bias, targets, options);
}

namespace {

Tensor rows_at(Context& ctx, const Tensor& hidden, const Batch& batch, int64_t offset_from_start, bool last) {
  std::vector<int64_t> index;
  for (const Sequence& s : batch.sequences)
    index.push_back(last ? s.start + s.length - 1 : s.start + offset_from_start);
  return ops::gather_rows(ctx, hidden, index);
}

// The mean of the rows of each sequence. [sequences, width]
Tensor mean_rows(Context& ctx, const Tensor& hidden, const Batch& batch) {
  std::vector<int64_t> starts = {0};
  std::vector<float> shares;
  for (const Sequence& s : batch.sequences) {
    starts.push_back(s.start + s.length);
    shares.push_back(1.0f / static_cast<float>(std::max<int64_t>(1, s.length)));
  }
  const Tensor share = Tensor::from({static_cast<int64_t>(shares.size())}, std::span<const float>(shares));
  return ops::scale_rows(ctx, ops::segment_sum(ctx, hidden, starts), share.to(ctx.device.memory()));
}

}  // namespace

Tensor Model::pooled(Context& ctx, const Tensor& hidden, const Batch& batch) const {
  return ops::activate(ctx, pooler_(ctx, rows_at(ctx, hidden, batch, 0, false)), Activation::kTanh);
}

Tensor Model::next_sentence_logits(Context& ctx, const Tensor& hidden, const Batch& batch) const {
  return ops::cast_to_f32(ctx, second_(ctx, pooled(ctx, hidden, batch)));
}

Tensor Model::row_scores(Context& ctx, const Tensor& hidden) const {
  check(spec_.head.kind == HeadKind::kSequenceClass && spec_.head.pool == PoolKind::kLast &&
            !classifier_dense_.defined(),
        "row_scores needs a classifier on the last token");
  return ops::cast_to_f32(ctx, classifier_(ctx, hidden));
}

std::map<std::string, Tensor> Model::outputs(Context& ctx, const Tensor& hidden, const Batch& batch) const {
  const HeadSpec& h = spec_.head;
  switch (h.kind) {
    case HeadKind::kCausalLm:
    case HeadKind::kMaskedLm:
      return {{"logits", lm_logits(ctx, hidden)}};
    case HeadKind::kBidirectionalLm: {
      const Tensor both = lm_logits(ctx, hidden);  // [2 N, vocab]
      std::vector<int64_t> next, previous;
      for (int64_t i = 0; i < hidden.dim(0); ++i) next.push_back(2 * i), previous.push_back(2 * i + 1);
      return {{"forward_logits", ops::gather_rows(ctx, both, next)},
              {"backward_logits", ops::gather_rows(ctx, both, previous)}};
    }
    case HeadKind::kPretraining:
      return {{"prediction_logits", lm_logits(ctx, hidden)},
              {"seq_relationship_logits", next_sentence_logits(ctx, hidden, batch)}};
    case HeadKind::kSequenceClass: {
      Tensor x = h.pool == PoolKind::kPooler ? pooled(ctx, hidden, batch)
                 : h.pool == PoolKind::kMean ? mean_rows(ctx, hidden, batch)
                                             : rows_at(ctx, hidden, batch, 0, h.pool == PoolKind::kLast);
      if (classifier_dense_.defined())
        x = ops::activate(ctx, classifier_dense_(ctx, x), h.classifier_activation);
      return {{"logits", classifier_(ctx, transformed(ctx, x))}};
    }
    case HeadKind::kTokenClass:
    case HeadKind::kReplacedToken: {
      const Tensor x = classifier_dense_.defined()
                           ? ops::activate(ctx, classifier_dense_(ctx, hidden), h.classifier_activation)
                           : transformed(ctx, hidden);
      return {{"logits", classifier_(ctx, x)}};
    }
    case HeadKind::kQuestion: {
      const auto parts = ops::split(ctx, classifier_(ctx, transformed(ctx, hidden)), {1, 1}, -1);
      return {{"start_logits", parts[0]}, {"end_logits", parts[1]}};
    }
    case HeadKind::kImageClass:
      return {{"logits", classifier_(ctx, rows_at(ctx, hidden, batch, 0, false))}};
    case HeadKind::kImageClassTeacher: {
      const Tensor cls = classifier_(ctx, rows_at(ctx, hidden, batch, 0, false));
      const Tensor distillation = second_(ctx, rows_at(ctx, hidden, batch, 1, false));
      return {{"cls_logits", cls},
              {"distillation_logits", distillation},
              {"logits", ops::scale(ctx, ops::add(ctx, cls, distillation), 0.5f)}};
    }
    case HeadKind::kContrastive:
      return {{"text_embeds", text_vectors(ctx, hidden, batch)}};
    case HeadKind::kNone:
      break;
  }
  std::map<std::string, Tensor> out = {{"last_hidden_state", hidden}};
  if (pooler_.defined()) out["pooler_output"] = pooled(ctx, hidden, batch);
  return out;
}

void Model::each_linear(const std::function<void(const std::string&, Linear&)>& visit) {
  const auto visit_linear = [&](Linear& linear) {
    if (!linear.defined()) return;
    std::string name = linear.weight()->name;
    visit(name.substr(0, name.size() - std::string(".weight").size()), linear);
  };
  for (Stack* stack : {encoder_.get(), decoder_.get()}) {
    if (!stack) continue;
    for (Linear* l : {&stack->project_in(), &stack->project_out()}) visit_linear(*l);
    for (Block& b : stack->blocks()) {
      for (Linear* l :
           {&b.attention.q, &b.attention.k, &b.attention.v, &b.attention.o, &b.attention.q_latent,
            &b.attention.kv_latent, &b.attention.distance, &b.attention.distance_key,
            &b.attention.distance_query, &b.cross.q, &b.cross.k, &b.cross.v, &b.cross.o, &b.mixer.in,
            &b.mixer.x, &b.mixer.dt, &b.mixer.out, &b.feed_forward.router, &b.feed_forward.shared_gate})
        visit_linear(*l);
      const auto expert = [&](FeedForward::Expert& e) {
        for (Linear* l : {&e.gate, &e.up, &e.down}) visit_linear(*l);
      };
      for (auto& e : b.feed_forward.experts) expert(e);
      expert(b.feed_forward.shared);
      for (Linear* l : b.recurrent.linears()) visit_linear(*l);
      for (Linear* l : b.alignment.linears()) visit_linear(*l);
    }
  }
  for (Linear* l : {&bridge_, &project1_, &project2_, &text_projection_, &image_projection_, &lm_,
                    &transform_, &pooler_, &classifier_dense_, &classifier_, &second_})
    visit_linear(*l);
}

std::vector<const Parameter*> Model::output_weights() const {
  std::vector<const Parameter*> out;
  for (const Linear* l : {&lm_, &classifier_, &second_})
    if (l->defined()) out.push_back(l->weight());
  return out;
}

std::vector<std::vector<Linear*>> Model::packed_groups() {
  std::vector<std::vector<Linear*>> groups;
  std::set<const Linear*> of_experts;
  for (Stack* stack : {encoder_.get(), decoder_.get()})
    if (stack)
      for (Block& b : stack->blocks())
        for (std::vector<Linear*>& layer : b.feed_forward.expert_layers()) {
          of_experts.insert(layer.begin(), layer.end());
          groups.push_back(std::move(layer));
        }
  each_linear([&](const std::string&, Linear& linear) {
    if (!of_experts.contains(&linear)) groups.push_back({&linear});
  });
  return groups;
}

void Model::pack(Device& device, bool release, DType activations) {
  activations_ = activations;
  parameters().to(device.memory());
  std::vector<std::vector<Linear*>> groups = packed_groups();
  std::ranges::stable_sort(groups, std::greater{},
                           [](const auto& group) { return group[0]->weight()->shape.count(); });
  std::map<const Parameter*, int> readers;
  for (const Stack* stack : {encoder_.get(), decoder_.get()})
    if (stack) ++readers[stack->tokens()];
  for (Stack* stack : {encoder_.get(), decoder_.get()})
    if (stack)
      for (Block& b : stack->blocks()) b.mixer.pack(device);
  for (const auto& group : groups)
    for (const Linear* linear : group) ++readers[linear->weight()];
  for (const auto& group : groups) {
    Linear::pack_together(device, group, activations);
    for (Linear* linear : group)
      if (release && readers[linear->weight()] == 1) linear->release();
  }
}

}  // namespace makar
