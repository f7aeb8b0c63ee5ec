#include "train/reward.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/shape.h"
#include "train/classify.h"
#include "train/svg.h"

namespace makar {

using ops::Activation;

ComparedPairs compared_pairs(std::span<const RankedAnswers> prompts, float margin) {
  ComparedPairs out;
  int64_t first = 0;
  for (const RankedAnswers& p : prompts) {
    const size_t from = out.better.size();
    for (size_t i = 0; i < p.ranks.size(); ++i)
      for (size_t j = 0; j < p.ranks.size(); ++j)
        if (p.ranks[i] < p.ranks[j]) {
          out.better.push_back(first + static_cast<int64_t>(i)),
              out.worse.push_back(first + static_cast<int64_t>(j));
          out.margins.push_back(margin + p.margin);
        }
    const auto pairs = static_cast<float>(out.better.size() - from);
    out.weights.resize(out.better.size(), 1.0f / (pairs * static_cast<float>(prompts.size())));
    first += static_cast<int64_t>(p.ranks.size());
  }
  return out;
}

Tensor ranking_loss(Context& ctx, const Tensor& scores, const ComparedPairs& pairs, float centring) {
  const auto n = static_cast<int64_t>(pairs.better.size());
  const auto constant = [&](const std::vector<float>& values) {
    return Tensor::from({n, 1}, std::span<const float>(values)).to(ctx.device.memory());
  };
  const Tensor column = ops::reshape(ctx, scores, {scores.count(), 1});
  const Tensor better = ops::gather_rows(ctx, column, pairs.better);  // [pairs, 1]
  const Tensor worse = ops::gather_rows(ctx, column, pairs.worse);
  Tensor difference = ops::subtract(ctx, better, worse);
  if (std::any_of(pairs.margins.begin(), pairs.margins.end(), [](float m) { return m != 0; }))
    difference = ops::subtract(ctx, difference, constant(pairs.margins));
  Tensor loss = ops::scale(ctx, ops::activate(ctx, difference, Activation::kLogSigmoid), -1.0f);
  if (centring > 0)
    loss = ops::add(
        ctx, loss,
        ops::scale(ctx, ops::activate(ctx, ops::add(ctx, better, worse), Activation::kSquare), centring));
  return ops::sum(ctx, ops::multiply(ctx, loss, constant(pairs.weights)));
}

void PairCalibration::add(double difference) {
  if (std::isnan(difference)) return;  // such scores have no order
  const double probability = 1 / (1 + std::exp(-std::fabs(difference)));
  const size_t bin = std::min(kBins - 1, static_cast<size_t>((probability - 0.5) * 2 * kBins));
  pairs[bin] += 1, confidence[bin] += probability, correct[bin] += difference > 0 ? 1 : 0;
}

double PairCalibration::error() const {
  double sum = 0, all = 0;
  for (size_t b = 0; b < kBins; ++b) sum += std::fabs(confidence[b] - correct[b]), all += pairs[b];
  return all > 0 ? sum / all : 0;
}

std::string PairCalibration::svg() const {
  Curve measured{"measured", {}, {}}, perfect{"perfectly calibrated", {0.5, 1}, {0.5, 1}};
  for (size_t b = 0; b < kBins; ++b)
    if (pairs[b] > 0) measured.add(confidence[b] / pairs[b], correct[b] / pairs[b]);
  return svg_chart("accuracy by the probability that the scores give to the answer with the higher score",
                   {measured, perfect}, XAxis::kNumbers);
}

void Comparison::add(std::span<const float> scores, const ComparedPairs& compared) {
  for (const float s : scores) score += s;
  answers += static_cast<double>(scores.size());
  for (size_t i = 0; i < compared.better.size(); ++i) {
    const double difference = static_cast<double>(scores[static_cast<size_t>(compared.better[i])]) -
                              scores[static_cast<size_t>(compared.worse[i])];
    pairs += 1, margin += difference, correct += difference > 0 ? 1 : 0;
    calibration.add(difference);
  }
}

Metrics Comparison::metrics() const {
  return {{"accuracy", correct / std::max(1.0, pairs)},
          {"margin", margin / std::max(1.0, pairs)},
          {"score", score / std::max(1.0, answers)}};
}

Result<LoadedModel> with_reward_head(const Model& base, const std::string& place, uint64_t seed) {
  MAKAR_TRY(LoadedModel loaded, with_answer_head(base, place, {"reward"}, seed));
  MAKAR_RETURN_IF_ERROR(check_reward_model(loaded.model->spec(), place));
  return loaded;
}

Result<LoadedModel> with_answer_head(const Model& base, const std::string& place,
                                     const std::vector<std::string>& labels, uint64_t seed) {
  const ModelSpec& spec = base.spec();
  const bool quality = labels != std::vector<std::string>{"reward"};
  const bool has_head =
      spec.head.kind == HeadKind::kSequenceClass && spec.head.labels == static_cast<int64_t>(labels.size());
  if (!spec.decoder || spec.encoder || !(spec.head.kind == HeadKind::kCausalLm || has_head))
    return error_of(Error::Kind::kUnsupported, place,
                    "a {} cannot become a {}; use a causal language model or a {}", spec.architecture,
                    quality ? "quality model" : "reward model",
                    quality ? "quality model with the same qualities" : "reward model");
  Json config = spec.config;
  const auto is_eos = [&](int64_t id) {
    return std::find(spec.eos.begin(), spec.eos.end(), id) != spec.eos.end();
  };
  if (spec.pad < 0 || is_eos(spec.pad)) {
    config.erase("pad_token_id");
    if (spec.bos >= 0 && !is_eos(spec.bos)) config["pad_token_id"] = spec.bos;
  }
  return with_head(base, config, place, "ForSequenceClassification", labels, false, seed, quality);
}

Status check_reward_model(const ModelSpec& spec, const std::string& place) {
  if (spec.head.kind == HeadKind::kSequenceClass && spec.head.labels == 1 &&
      spec.head.pool == PoolKind::kLast)
    return Done{};
  return error_of(Error::Kind::kUnsupported, place,
                  "a {} is not a reward model (one score at the last token); makar reward trains one",
                  spec.architecture);
}

Tensor reward_scores(ForwardContext& f, const Model& model, const Batch& batch) {
  Inputs inputs;
  inputs.source = batch;
  const Tensor logits = model.outputs(f.ops, model.hidden(f, inputs), batch).at("logits");
  return ops::reshape(f.ops, logits, {logits.dim(0)});
}

RewardTask::RewardTask(Model& model, Rankings data, const RewardOptions& options, int64_t batch,
                       uint64_t seed)
    : ExampleTask(data.train.size(), data.validation.size(), batch, seed),
      model_(model),
      data_(std::move(data)),
      o_(options) {}

Status RewardTask::prepare_step(uint64_t, Device&) {
  step_ = {};
  return Done{};
}

Result<RewardTask::Prompts> RewardTask::read(std::span<const size_t> which, bool validation) const {
  std::vector<RankedAnswers> prompts;
  Prompts out;
  for (const size_t w : which) {
    MAKAR_TRY(RankedAnswers p, (validation ? data_.validation : data_.train).read(w));
    for (const auto& ids : p.ids) out.batch.add(ids);
    prompts.push_back(std::move(p));
  }
  out.pairs = compared_pairs(prompts, o_.margin);
  return out;
}

Result<MicroBatch> RewardTask::make(std::span<const size_t> which, bool validation, uint64_t) {
  MAKAR_TRY(Prompts prompts, read(which, validation));
  MicroBatch out;
  out.weight = static_cast<double>(which.size());
  out.tokens = prompts.batch.rows(), out.squared_lengths = squared_lengths(prompts.batch);
  out.loss = [this, validation, prompts = std::move(prompts)](ForwardContext& f) -> Result<Tensor> {
    const Tensor scores = reward_scores(f, model_, prompts.batch);
    if (!validation) {
      const Tensor host = scores.host();
      step_.add(host.span(), prompts.pairs);
    }
    return ranking_loss(f.ops, scores, prompts.pairs, o_.centring);
  };
  return out;
}

Result<Metrics> RewardTask::metrics(Device& device) {
  if (held_out_ == 0) return Metrics{};
  Comparison totals;
  for (size_t at = 0; at < held_out_; at += batch_) {
    std::vector<size_t> which;
    for (size_t i = at; i < std::min(at + batch_, held_out_); ++i) which.push_back(i);
    MAKAR_TRY(const Prompts prompts, read(which, true));
    Context ctx{device};
    ForwardContext f{ctx};
    const Tensor scores = reward_scores(f, model_, prompts.batch).host();
    totals.add(scores.span(), prompts.pairs);
  }
  calibration_ = totals.calibration;
  Metrics out = totals.metrics();
  out["calibration_error"] = calibration_.error();
  return out;
}

}  // namespace makar
