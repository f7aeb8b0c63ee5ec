#include "train/quality.h"

#include <algorithm>
#include <cmath>

#include "base/nearest.h"
#include "base/quote.h"
#include "data/schema.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar {
namespace {

constexpr double kSensibleWeight = 3, kUnsafePenalty = 100, kSafeThreshold = 0.5;

Result<RatedQualities> encode_quality(const ConversationEncoder& encoder, const QualityRecord& record,
                                      const std::vector<std::string>& names) {
  RatedQualities out;
  out.ratings.assign(names.size(), RatedQualities::kUnrated);
  for (const auto& [name, value] : record.ratings) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end())
      return error_at("", "{} is not a quality of this run ({}){}; set them with --qualities",
                      quote(name.substr(0, 80)), fmt::join(names, ", "), did_you_mean(name, names));
    out.ratings[static_cast<size_t>(at - names.begin())] = static_cast<float>(value);
  }
  MAKAR_TRY(MaskedTokens tokens, encode_answer(encoder, record.prompt, record.answer));
  out.ids = std::move(tokens.ids);
  return out;
}

Status read_qualities(const DataPath& path, const ConversationEncoder& encoder,
                      const std::vector<std::string>& names, ValidationSplit& split, QualityData& out) {
  MAKAR_TRY(auto reader, RecordReader::open({path}));
  out.rated.resize(names.size());
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const auto quality = to_quality(record.value);
    if (!quality.ok()) {
      reader.bad().add(record.place(), quality.error().message);
      continue;
    }
    const auto answer = encode_quality(encoder, *quality, names);
    if (!answer.ok()) {
      reader.bad().add(record.place(), answer.error().message);
      continue;
    }
    // Split by the prompt, so that no prompt is both in training and in validation.
    const bool held_out = split.selects(dump(quality->prompt));
    MAKAR_RETURN_IF_ERROR((held_out ? out.validation : out.train).add(*answer));
    if (!held_out)
      for (size_t q = 0; q < names.size(); ++q)
        out.rated[q] += answer->ratings[q] != RatedQualities::kUnrated ? 1 : 0;
  }
  out.bad = reader.bad();
  return Done{};
}

// The share of pairs of a good and a bad answer in which the good one has the higher score; ties count half.
double area_under_curve(std::vector<std::pair<float, bool>> scored) {
  std::sort(scored.begin(), scored.end());
  double correct = 0, good = 0, bad = 0;
  for (size_t at = 0; at < scored.size();) {
    double ties_good = 0, ties_bad = 0;
    const float score = scored[at].first;
    for (; at < scored.size() && scored[at].first == score; ++at)
      (scored[at].second ? ties_good : ties_bad) += 1;
    correct += ties_good * (bad + ties_bad / 2);
    good += ties_good, bad += ties_bad;
  }
  return good > 0 && bad > 0 ? correct / (good * bad) : 0.5;
}

}  // namespace

const std::vector<std::string>& lamda_qualities() {
  static const std::vector<std::string> names = {"sensible", "specific", "interesting", "safe", "grounded"};
  return names;
}

Result<QualityData> open_qualities(const DatasetOptions& options, const ConversationEncoder& encoder,
                                   const std::vector<std::string>& names, Json& identity) {
  return read_examples<QualityData>(
      options, "rated answers", identity,
      [&](const DatasetSpec& spec, ValidationSplit& split, QualityData& out) -> Status {
        if (!spec.type.empty())
          return error_at("datasets", "type '{}' has no ratings of qualities; remove the type", spec.type);
        return read_qualities(spec.data(), encoder, names, split, out);
      });
}

Tensor quality_loss(Context& ctx, const Tensor& logits, std::span<const float> ratings) {
  check(logits.count() == static_cast<int64_t>(ratings.size()), "one rating per logit");
  // softplus(x) - x r, the stable form of -r log s(x) - (1 - r) log(1 - s(x))
  std::vector<float> mask, targets;
  double rated_count = 0;
  for (const float r : ratings) {
    const bool rated = r != RatedQualities::kUnrated;
    mask.push_back(rated ? 1.0f : 0.0f), targets.push_back(rated ? r : 0.0f), rated_count += rated;
  }
  const auto constant = [&](const std::vector<float>& values) {
    return Tensor::from(logits.shape(), std::span<const float>(values)).to(ctx.device.memory());
  };
  const Tensor losses = ops::subtract(ctx, ops::activate(ctx, logits, ops::Activation::kSoftplus),
                                      ops::multiply(ctx, logits, constant(targets)));
  return ops::scale(ctx, ops::sum(ctx, ops::multiply(ctx, losses, constant(mask))),
                    1.0f / static_cast<float>(std::max(1.0, rated_count)));
}

QualityTask::QualityTask(Model& model, QualityData data, std::vector<std::string> names, int64_t batch,
                         uint64_t seed)
    : ExampleTask(data.train.size(), data.validation.size(), batch, seed),
      model_(model),
      data_(std::move(data)),
      names_(std::move(names)) {}

Result<QualityTask::Answers> QualityTask::read(std::span<const size_t> which, bool validation) const {
  Answers out;
  for (const size_t w : which) {
    MAKAR_TRY(const RatedQualities answer, (validation ? data_.validation : data_.train).read(w));
    out.batch.add(answer.ids);
    out.ratings.insert(out.ratings.end(), answer.ratings.begin(), answer.ratings.end());
  }
  return out;
}

Result<MicroBatch> QualityTask::make(std::span<const size_t> which, bool validation, uint64_t) {
  MAKAR_TRY(Answers answers, read(which, validation));
  MicroBatch out;
  out.weight = static_cast<double>(answers.ratings.size()) -
               static_cast<double>(
                   std::count(answers.ratings.begin(), answers.ratings.end(), RatedQualities::kUnrated));
  out.tokens = answers.batch.rows(), out.squared_lengths = squared_lengths(answers.batch);
  out.loss = [this, answers = std::move(answers)](ForwardContext& f) -> Result<Tensor> {
    Inputs inputs;
    inputs.source = answers.batch;
    const Tensor logits =
        model_.outputs(f.ops, model_.hidden(f, inputs), answers.batch).at("logits");  // [answers, qualities]
    return quality_loss(f.ops, logits, answers.ratings);
  };
  return out;
}

Result<Metrics> QualityTask::metrics(Device& device) {
  if (held_out_ == 0) return Metrics{};
  std::vector<std::vector<std::pair<float, bool>>> scored(names_.size());
  for (size_t at = 0; at < held_out_; at += batch_) {
    std::vector<size_t> which;
    for (size_t i = at; i < std::min(at + batch_, held_out_); ++i) which.push_back(i);
    MAKAR_TRY(const Answers answers, read(which, true));
    const Tensor probabilities = quality_probabilities(device, model_, answers.batch);
    for (size_t i = 0; i < answers.ratings.size(); ++i)
      if (answers.ratings[i] != RatedQualities::kUnrated)
        scored[i % names_.size()].emplace_back(probabilities.span()[i], answers.ratings[i] >= 0.5f);
  }
  Metrics out;
  double qualities = 0, accuracy = 0, area = 0;
  for (size_t q = 0; q < names_.size(); ++q) {
    if (scored[q].empty()) continue;
    double correct = 0;
    for (const auto& [score, good] : scored[q]) correct += (score >= 0.5f) == good ? 1 : 0;
    out[names_[q]] = correct / static_cast<double>(scored[q].size());
    qualities += 1, accuracy += out[names_[q]], area += area_under_curve(std::move(scored[q]));
  }
  out["accuracy"] = accuracy / std::max(1.0, qualities);
  out["auc"] = area / std::max(1.0, qualities);
  return out;
}

Tensor quality_probabilities(Device& device, const Model& model, const Batch& batch) {
  Context ctx{device};
  ForwardContext f{ctx};
  Inputs inputs;
  inputs.source = batch;
  const Tensor logits = model.outputs(ctx, model.hidden(f, inputs), batch).at("logits");
  return ops::activate(ctx, logits, ops::Activation::kSigmoid).host();
}

Status check_quality_model(const ModelSpec& spec, const std::string& place) {
  if (spec.head.kind == HeadKind::kSequenceClass && spec.head.pool == PoolKind::kLast &&
      spec.config.value("problem_type", Json()) == "multi_label_classification")
    return Done{};
  return error_of(Error::Kind::kUnsupported, place,
                  "a {} is not a quality model (one probability per quality at the last token); makar reward "
                  "quality trains one",
                  spec.architecture);
}

double quality_score(const std::vector<std::string>& names, std::span<const float> probabilities) {
  double out = 0;
  for (size_t q = 0; q < names.size(); ++q) {
    if (names[q] == "safe")
      out -= probabilities[q] < kSafeThreshold ? kUnsafePenalty : 0;
    else
      out += (names[q] == "sensible" ? kSensibleWeight : 1.0) * probabilities[q];
  }
  return out;
}

RewardTerm quality_reward(double weight, std::shared_ptr<const Model> model, std::vector<std::string> names,
                          std::shared_ptr<const ConversationEncoder> encoder) {
  const auto score = [model, names = std::move(names), encoder](
                         std::span<const RewardInput> answers,
                         Device& device) -> Result<std::vector<double>> {
    std::vector<double> out;
    constexpr size_t kAnswersPerBatch = 32;
    for (size_t at = 0; at < answers.size(); at += kAnswersPerBatch) {
      const auto part = answers.subspan(at, std::min(kAnswersPerBatch, answers.size() - at));
      MAKAR_TRY(const Batch batch, batch_reward_inputs(*encoder, part));
      const Tensor probabilities = quality_probabilities(device, *model, batch);
      for (size_t i = 0; i < part.size(); ++i)
        out.push_back(quality_score(names, probabilities.span().subspan(i * names.size(), names.size())));
    }
    return out;
  };
  return {"quality", weight, score};
}

}  // namespace makar
