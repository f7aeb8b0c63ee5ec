#include "train/objective.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/shape.h"
#include "ops/softmax.h"
#include "train/causal.h"

namespace makar {
namespace {

Error bad_labels(const std::string& name, const std::string& what) {
  return error_at("labels", "'{}' {}", name, what);
}

Result<const Tensor*> find_labels(const Labels& labels, const std::string& name) {
  const auto it = labels.find(name);
  if (it == labels.end()) return error_of(Error::Kind::kNotFound, "labels", "'{}' is missing", name);
  if (it->second.dtype() != DType::kI64) return bad_labels(name, "must be i64");
  return &it->second;
}

// [batch, time] labels to one label per ragged row; with shift, row t gets the label of t + 1 (kIgnore for
// the last).
Result<std::vector<int64_t>> token_targets(const Tensor& labels, const Batch& batch, int64_t classes,
                                           bool shift) {
  if (labels.rank() != 2 || labels.dim(0) != static_cast<int64_t>(batch.sequences.size()))
    return bad_labels("labels", "must be [batch, time], got " + labels.shape().text());
  const int64_t time = labels.dim(1);
  std::vector<int64_t> out(static_cast<size_t>(batch.rows()), ops::kIgnore);
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const Sequence& q = batch.sequences[s];
    const int64_t first =
        q.length < time ? std::min(batch.positions[static_cast<size_t>(q.start)], time - q.length) : 0;
    if (first + q.length > time) return bad_labels("labels", "is shorter than the sequences");
    for (int64_t i = 0; i < q.length; ++i) {
      const int64_t at = first + i + (shift ? 1 : 0);
      if (at >= first + q.length) continue;
      const int64_t label = labels.i64()[static_cast<int64_t>(s) * time + at];
      if (label != ops::kIgnore && (label < 0 || label >= classes))
        return bad_labels("labels", fmt::format("holds {}; there are {} classes", label, classes));
      out[static_cast<size_t>(q.start + i)] = label;
    }
  }
  return out;
}

Result<std::vector<int64_t>> sequence_targets(const Tensor& labels, const std::string& name,
                                              const Batch& batch, int64_t classes) {
  if (labels.count() != static_cast<int64_t>(batch.sequences.size()))
    return bad_labels(name, "must hold one label per sequence");
  std::vector<int64_t> out(labels.i64(), labels.i64() + labels.count());
  for (const int64_t label : out)
    if (label != ops::kIgnore && (label < 0 || label >= classes))
      return bad_labels(name, fmt::format("holds {}; there are {} classes", label, classes));
  return out;
}

// Cross-entropy over positions: start or end logits of each sequence against a target position.
Result<Tensor> position_loss(Context& ctx, const Tensor& logits, const Tensor& positions,
                             const std::string& name, const Batch& batch) {
  Tensor total;
  int64_t counted = 0;
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const Sequence& q = batch.sequences[s];
    const int64_t at = positions.i64()[s];
    if (at < 0 || at >= q.length) continue;  // outside the window: ignored, as in transformers
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < q.length; ++i) rows.push_back(q.start + i);
    const Tensor row = ops::reshape(ctx, ops::gather_rows(ctx, logits, rows), {1, q.length});
    const Tensor loss = ops::cross_entropy(ctx, row, std::vector<int64_t>{at});
    total = total.defined() ? ops::add(ctx, total, loss) : loss;
    ++counted;
  }
  if (counted == 0) return bad_labels(name, "has no position inside a sequence");
  return ops::scale(ctx, total, 1.0f / static_cast<float>(counted));
}

bool has_label(const std::vector<int64_t>& targets) {
  return std::any_of(targets.begin(), targets.end(), [](int64_t t) { return t != ops::kIgnore; });
}

}  // namespace

// Binary cross-entropy of one logit x per token, mean over the tokens with a label: -log sigmoid(x) for
// replaced tokens, -log sigmoid(-x) for real ones.
Tensor replaced_loss(Context& ctx, const Tensor& logits, const std::vector<int64_t>& targets) {
  std::vector<int64_t> rows;
  std::vector<float> signs;
  for (size_t i = 0; i < targets.size(); ++i)
    if (targets[i] != ops::kIgnore)
      rows.push_back(static_cast<int64_t>(i)), signs.push_back(targets[i] == 1 ? 1.0f : -1.0f);
  const Tensor sign = Tensor::from({static_cast<int64_t>(signs.size()), 1}, signs).to(ctx.device.memory());
  const Tensor margin = ops::multiply(ctx, ops::gather_rows(ctx, logits, rows), sign);
  return ops::scale(ctx, ops::mean(ctx, ops::activate(ctx, margin, Activation::kLogSigmoid)), -1.0f);
}

Tensor with_balance(Context& ctx, const ModelSpec& spec, const Record& record, const Tensor& loss) {
  const FeedForwardSpec& experts = *spec.decoder->routed();
  const Tensor balance = load_balancing_loss(ctx, record, experts.experts);
  return ops::add(ctx, loss, ops::scale(ctx, balance, spec.router_loss));
}

Tensor language_loss(ForwardContext& f, const Model& model, const Inputs& inputs,
                     std::span<const int64_t> targets, float smoothing) {
  Context& ctx = f.ops;
  const bool balanced = model.spec().router_loss > 0 && model.spec().main().routed() && ctx.tape;
  Record routing;
  ForwardContext inner{ctx, nullptr, f.record ? f.record : (balanced ? &routing : nullptr), f.checkpoint};
  const Tensor loss = model.lm_loss(ctx, model.hidden(inner, inputs), targets, ctx.tape ? smoothing : 0.0f);
  return balanced ? with_balance(ctx, model.spec(), *inner.record, loss) : loss;
}

namespace {

// The arguments of a head's loss.
struct HeadInputs {
  Context& ctx;
  const Model& model;
  const Tensor& hidden;
  const Batch& batch;
  const Labels& labels;
  float smoothing;
  const ModelSpec& spec() const { return model.spec(); }
  ops::CrossEntropyOptions entropy() const {
    ops::CrossEntropyOptions out;
    out.smoothing = smoothing;
    return out;
  }
};

// The targets of all tokens; fails if all of them are ignored.
Result<std::vector<int64_t>> labelled_tokens(const HeadInputs& in, int64_t classes, bool shift) {
  MAKAR_TRY(const Tensor* labels_tensor, find_labels(in.labels, "labels"));
  MAKAR_TRY(auto targets, token_targets(*labels_tensor, in.batch, classes, shift));
  if (!has_label(targets)) return bad_labels("labels", "has no labelled token");
  return targets;
}

Result<Tensor> language_head_loss(const HeadInputs& in, bool shift, const Record* routing) {
  MAKAR_TRY(const auto targets, labelled_tokens(in, in.spec().vocab, shift));
  Tensor loss = in.model.lm_loss(in.ctx, in.hidden, targets, in.smoothing);
  if (in.spec().router_loss > 0) loss = with_balance(in.ctx, in.spec(), *routing, loss);
  if (in.spec().head.kind != HeadKind::kPretraining || !in.labels.contains("next_sentence_label"))
    return loss;
  MAKAR_TRY(const Tensor* next, find_labels(in.labels, "next_sentence_label"));
  MAKAR_TRY(const auto classes, sequence_targets(*next, "next_sentence_label", in.batch, 2));
  const Tensor logits = in.model.next_sentence_logits(in.ctx, in.hidden, in.batch);
  return ops::add(in.ctx, loss, ops::cross_entropy(in.ctx, logits, classes));
}

// Classification; regression if the labels are floats.
Result<Tensor> sequence_head_loss(const HeadInputs& in) {
  const Tensor logits = in.model.outputs(in.ctx, in.hidden, in.batch).at("logits");
  const auto it = in.labels.find("labels");
  if (it != in.labels.end() && is_float(it->second.dtype())) {
    if (it->second.count() != logits.count()) return bad_labels("labels", "must hold one number per output");
    return ops::mse_loss(in.ctx, logits, it->second.to(DType::kF32).reshape(logits.shape()));
  }
  MAKAR_TRY(const Tensor* labels_tensor, find_labels(in.labels, "labels"));
  MAKAR_TRY(const auto targets, sequence_targets(*labels_tensor, "labels", in.batch, in.spec().head.labels));
  if (!has_label(targets)) return bad_labels("labels", "has no labelled sequence");
  return ops::cross_entropy(in.ctx, logits, targets, in.entropy());
}

Result<Tensor> question_head_loss(const HeadInputs& in) {
  MAKAR_TRY(const Tensor* start, find_labels(in.labels, "start_positions"));
  MAKAR_TRY(const Tensor* end, find_labels(in.labels, "end_positions"));
  for (const auto& [name, positions] : {std::pair("start_positions", start), {"end_positions", end}})
    if (positions->count() != static_cast<int64_t>(in.batch.sequences.size()))
      return bad_labels(name, "must hold one position per sequence");
  const auto logits = in.model.outputs(in.ctx, in.hidden, in.batch);
  MAKAR_TRY(const Tensor a,
            position_loss(in.ctx, logits.at("start_logits"), *start, "start_positions", in.batch));
  MAKAR_TRY(const Tensor b, position_loss(in.ctx, logits.at("end_logits"), *end, "end_positions", in.batch));
  return ops::scale(in.ctx, ops::add(in.ctx, a, b), 0.5f);
}

}  // namespace

Result<Tensor> head_loss(ForwardContext& f, const Model& model, const Inputs& inputs, const Labels& labels,
                         const ObjectiveOptions& options) {
  const ModelSpec& spec = model.spec();
  Context& ctx = f.ops;
  Record routing;
  ForwardContext inner{ctx, nullptr, f.record ? f.record : (spec.router_loss > 0 ? &routing : nullptr),
                       f.checkpoint};
  const Tensor hidden = model.hidden(inner, inputs);
  const bool has_decoder_input =
      spec.encoder && spec.decoder && !(spec.image_input && inputs.target.tokens.empty());
  const HeadInputs in{
      ctx, model, hidden, has_decoder_input ? inputs.target : inputs.source, labels, options.smoothing};
  switch (spec.head.kind) {
    case HeadKind::kCausalLm:
    case HeadKind::kMaskedLm:
    case HeadKind::kPretraining:
      return language_head_loss(
          in, spec.head.kind == HeadKind::kCausalLm && !(has_decoder_input && spec.decoder->first().cross),
          inner.record);
    case HeadKind::kBidirectionalLm: {
      MAKAR_TRY(const Tensor* labels_tensor, find_labels(labels, "labels"));
      MAKAR_TRY(const auto next, token_targets(*labels_tensor, in.batch, spec.vocab, true));
      const std::vector<int64_t> targets = bidirectional_targets(in.batch, next);
      if (!has_label(targets)) return bad_labels("labels", "has no labelled token");
      return model.lm_loss(ctx, hidden, targets, options.smoothing);
    }
    case HeadKind::kTokenClass: {
      MAKAR_TRY(const auto targets, labelled_tokens(in, spec.head.labels, false));
      return ops::cross_entropy(ctx, model.outputs(ctx, hidden, in.batch).at("logits"), targets,
                                in.entropy());
    }
    case HeadKind::kReplacedToken: {
      MAKAR_TRY(const auto targets, labelled_tokens(in, 2, false));
      return replaced_loss(ctx, model.outputs(ctx, hidden, in.batch).at("logits"), targets);
    }
    case HeadKind::kSequenceClass:
    case HeadKind::kImageClass:
    case HeadKind::kImageClassTeacher:
      return sequence_head_loss(in);
    case HeadKind::kQuestion:
      return question_head_loss(in);
    case HeadKind::kContrastive:
    case HeadKind::kNone:
      break;
  }
  return error_of(Error::Kind::kUnsupported, "labels", "a {} has no head that is trained with labels",
                  spec.architecture);
}

Tensor pairwise_loss(Context& ctx, const Tensor& chosen, const Tensor& rejected) {
  const Tensor margin = ops::subtract(ctx, chosen, rejected);
  return ops::scale(ctx, ops::mean(ctx, ops::activate(ctx, margin, Activation::kLogSigmoid)), -1.0f);
}

ScoredTokens token_log_probabilities(ForwardContext& f, const Model& model, const Batch& batch,
                                     const std::vector<float>& mask) {
  Context& ctx = f.ops;
  check(mask.size() == batch.tokens.size(), "one mask value per token");
  Inputs inputs;
  inputs.source = batch;
  const Tensor hidden = model.hidden(f, inputs);
  // Rows that predict a token with mask 1, in order.
  std::vector<int64_t> rows, next, starts = {0};
  for (const Sequence& s : batch.sequences) {
    for (int64_t i = 1; i < s.length; ++i)
      if (mask[static_cast<size_t>(s.start + i)] != 0.0f) {
        rows.push_back(s.start + i - 1);
        next.push_back(batch.tokens[static_cast<size_t>(s.start + i)]);
      }
    starts.push_back(static_cast<int64_t>(rows.size()));
  }
  const Tensor logits = model.lm_logits(ctx, ops::gather_rows(ctx, hidden, rows));
  return {ops::pick(ctx, ops::log_softmax(ctx, logits), next), std::move(starts)};
}

Tensor sequence_sums(Context& ctx, const ScoredTokens& scored) {
  const Tensor sums =
      ops::segment_sum(ctx, ops::reshape(ctx, scored.values, {scored.values.count(), 1}), scored.starts);
  return ops::reshape(ctx, sums, {sums.dim(0)});
}

Tensor sequence_log_probabilities(ForwardContext& f, const Model& model, const Batch& batch,
                                  const std::vector<float>& mask) {
  return sequence_sums(f.ops, token_log_probabilities(f, model, batch, mask));
}

}  // namespace makar
