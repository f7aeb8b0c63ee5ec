#include "eval/task_metrics.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "metrics/agreement.h"
#include "metrics/bleu.h"
#include "metrics/chrf.h"
#include "metrics/classification.h"
#include "metrics/resample.h"
#include "metrics/ter.h"

namespace makar {
namespace {

constexpr MetricInfo kMetrics[] = {
    {"acc", OutputType::kMultipleChoice, Aggregation::kMean, true},
    {"acc_norm", OutputType::kMultipleChoice, Aggregation::kMean, true},
    {"acc_bytes", OutputType::kMultipleChoice, Aggregation::kMean, true},
    {"brier_score", OutputType::kMultipleChoice, Aggregation::kMean, false},
    {"mc2", OutputType::kMultipleChoice, Aggregation::kMean, true},
    {"mcc", OutputType::kMultipleChoice, Aggregation::kCorpus, true},
    {"f1", OutputType::kMultipleChoice, Aggregation::kCorpus, true},
    {"ece", OutputType::kMultipleChoice, Aggregation::kCorpus, false},
    {"pearson", OutputType::kMultipleChoice, Aggregation::kCorpus, true},
    {"spearman", OutputType::kMultipleChoice, Aggregation::kCorpus, true},
    {"pct_stereotype", OutputType::kMultipleChoice, Aggregation::kMean, false},
    {"lms", OutputType::kMultipleChoice, Aggregation::kMean, true},
    {"ss", OutputType::kMultipleChoice, Aggregation::kMean, false},
    {"icat", OutputType::kMultipleChoice, Aggregation::kCorpus, true},
    {"bias_score", OutputType::kMultipleChoice, Aggregation::kCorpus, false},
    {"ambiguous_bias_score", OutputType::kMultipleChoice, Aggregation::kCorpus, false},
    {"perplexity", OutputType::kLoglikelihood, Aggregation::kPerplexity, false},
    {"acc", OutputType::kLoglikelihood, Aggregation::kMean, true},
    {"word_perplexity", OutputType::kRolling, Aggregation::kPerplexity, false},
    {"byte_perplexity", OutputType::kRolling, Aggregation::kPerplexity, false},
    {"bits_per_byte", OutputType::kRolling, Aggregation::kBits, false},
    {"exact_match", OutputType::kGenerate, Aggregation::kMean, true},
    {"any_match", OutputType::kGenerate, Aggregation::kMean, true},
    {"squad_exact", OutputType::kGenerate, Aggregation::kMean, true},
    {"squad_f1", OutputType::kGenerate, Aggregation::kMean, true},
    {"boxed_match", OutputType::kGenerate, Aggregation::kMean, true},
    {"boxed_match_normalized", OutputType::kGenerate, Aggregation::kMean, true},
    {"rouge1", OutputType::kGenerate, Aggregation::kMean, true},
    {"rouge2", OutputType::kGenerate, Aggregation::kMean, true},
    {"rougeL", OutputType::kGenerate, Aggregation::kMean, true},
    {"rougeLsum", OutputType::kGenerate, Aggregation::kMean, true},
    {"rouge1_acc", OutputType::kGenerate, Aggregation::kMean, true},
    {"rougeL_acc", OutputType::kGenerate, Aggregation::kMean, true},
    {"bleu_acc", OutputType::kGenerate, Aggregation::kMean, true},
    {"bleu", OutputType::kGenerate, Aggregation::kCorpus, true},
    {"chrf", OutputType::kGenerate, Aggregation::kCorpus, true},
    {"ter", OutputType::kGenerate, Aggregation::kCorpus, false},
    {"pass@1", OutputType::kGenerate, Aggregation::kCorpus, true},
    {"pass@5", OutputType::kGenerate, Aggregation::kCorpus, true},
    {"pass@10", OutputType::kGenerate, Aggregation::kCorpus, true},
    {"pass@100", OutputType::kGenerate, Aggregation::kCorpus, true},
    {"refusal", OutputType::kGenerate, Aggregation::kMean, true},
    {"words", OutputType::kGenerate, Aggregation::kMean, true},
};

// As lm-eval counts words: the parts between white space, including empty ones at both ends.
double words_in(const std::string& text) {
  double words = 1;
  for (size_t i = 0; i < text.size(); ++i)
    if (std::isspace(static_cast<unsigned char>(text[i])) &&
        (i == 0 || !std::isspace(static_cast<unsigned char>(text[i - 1]))))
      ++words;
  return words;
}

// The expected calibration error (Guo et al., 2017). value: a confidence; weight: 1 if the choice was right.
// The statistics have, for each bin, the count, the sum of confidences and the number of right choices. A bin
// includes its upper bound.
constexpr size_t kCalibrationBins = 10;
double calibration_error(std::span<const double> sums) {
  double out = 0, count = 0;
  for (size_t bin = 0; bin < kCalibrationBins; ++bin) {
    out += std::abs(sums[bin * 3 + 1] - sums[bin * 3 + 2]);
    count += sums[bin * 3];
  }
  return out / count;
}
Statistics calibration_statistics(const MetricValue& one) {
  Statistics out(3 * kCalibrationBins);
  constexpr auto kBins = static_cast<double>(kCalibrationBins);
  const double bin = std::clamp(std::ceil(one.value * kBins) - 1, 0.0, kBins - 1);
  const size_t at = static_cast<size_t>(bin) * 3;
  out[at] = 1, out[at + 1] = one.value, out[at + 2] = one.weight;
  return out;
}

// BBQ's bias score. value: 1 biased, -1 opposite, 0 unknown; weight: 1 if the choice was right.
double bias_score(std::span<const double> sums, bool ambiguous) {
  const double biased = sums[0], opposite = sums[1], right = sums[2], all = sums[3];
  if (biased + opposite == 0) return 0;
  const double score = 2 * biased / (biased + opposite) - 1;
  return ambiguous ? (1 - right / all) * score : score;
}

Result<Evaluation> corpus_evaluation(const std::string& name, const std::vector<MetricValue>& values) {
  if (name == "mcc" || name == "f1") {
    std::vector<std::string> predicted, truth;
    for (const MetricValue& one : values)
      predicted.push_back(fmt::format("{}", one.value)), truth.push_back(fmt::format("{}", one.weight));
    return evaluate_classes(predicted, truth, name == "mcc" ? "mcc" : "f1_macro");
  }
  if (name == "pearson" || name == "spearman") {
    std::vector<double> predicted, truth;
    for (const MetricValue& one : values) predicted.push_back(one.value), truth.push_back(one.weight);
    return evaluate_correlation(predicted, truth, name);
  }
  if (name == "bleu" || name == "chrf" || name == "ter") {
    Segments segments;
    for (const MetricValue& one : values) segments.push_back({one.answer, one.references});
    if (name == "bleu") return evaluate_bleu(segments, {});
    if (name == "chrf") return evaluate_chrf(segments, {});
    return evaluate_ter(segments, {});
  }
  std::vector<Statistics> units;
  if (name == "ece") {
    for (const MetricValue& one : values) units.push_back(calibration_statistics(one));
    return evaluation_of_sums(name, "", std::move(units), calibration_error);
  }
  if (name == "icat") {
    for (const MetricValue& one : values) units.push_back({one.value, one.weight, 1});
    return evaluation_of_sums(name, "", std::move(units), [](std::span<const double> s) {
      return s[0] / s[2] * std::min(s[1] / s[2], 1 - s[1] / s[2]) / 0.5;
    });
  }
  if (name.ends_with("bias_score")) {
    for (const MetricValue& one : values)
      units.push_back({one.value > 0 ? 1.0 : 0, one.value < 0 ? 1.0 : 0, one.weight, 1});
    return evaluation_of_sums(name, "", std::move(units), [ambiguous = name != "bias_score"](auto sums) {
      return bias_score(sums, ambiguous);
    });
  }
  check(name.starts_with("pass@"), "expected a corpus metric");
  int64_t k = 0;
  std::from_chars(name.data() + 5, name.data() + name.size(), k);
  std::vector<Attempts> problems;
  for (const MetricValue& one : values)
    problems.push_back({"", static_cast<int64_t>(one.weight), static_cast<int64_t>(one.value)});
  return evaluate_pass(problems, k);
}

}  // namespace

Json MetricValue::json() const {
  if (!references.empty()) return {{"answer", answer}, {"references", references}};
  return weight == 1 ? Json(value) : Json::array({value, weight});
}

std::vector<std::string> metric_names(OutputType type) {
  std::vector<std::string> out;
  for (const MetricInfo& metric : kMetrics)
    if (metric.output == type) out.emplace_back(metric.name);
  return out;
}

const MetricInfo& task_metric(OutputType output, const std::string& name) {
  for (const MetricInfo& metric : kMetrics)
    if (metric.output == output && name == metric.name) return metric;
  check(false, "unknown metric " + name);
  return kMetrics[0];
}

Result<std::optional<MetricValue>> document_metric(const MetricOptions& metric, OutputType output,
                                                   const Question& question, const Json& responses,
                                                   const Json& document) {
  std::optional<MetricValue> out;
  if (!metric.where.empty()) {
    MAKAR_TRY(const Json is_selected, metric.where.value(document));
    if (!is_selected.is_boolean())
      return error_at("where", "expected true or false, got {}", is_selected.dump());
    if (!is_selected.get<bool>()) return out;
  }
  switch (output) {
    case OutputType::kMultipleChoice: {
      MAKAR_TRY(out, choice_metric(metric, question, responses, document));
      return out;
    }
    case OutputType::kLoglikelihood:
      out = MetricValue{metric.name == "acc" ? (responses[0][1].get<bool>() ? 1.0 : 0.0)
                                             : responses[0][0].get<double>()};
      return out;
    case OutputType::kRolling: {
      const std::string& text = question.targets[0];
      out = MetricValue{responses[0][0].get<double>(),
                        metric.name == "word_perplexity" ? words_in(text) : static_cast<double>(text.size())};
      return out;
    }
    case OutputType::kGenerate:
      break;
  }
  MAKAR_TRY(out, answer_metric(metric, question, responses.get<std::vector<std::string>>(), document));
  return out;
}

TaskScore aggregate(const MetricInfo& metric, const std::vector<MetricValue>& values) {
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
  if (values.empty()) return {kUndefined, {}};
  double sum = 0, weight = 0, squares = 0;
  for (const MetricValue& one : values) sum += one.value, weight += one.weight;
  if (metric.aggregation == Aggregation::kPerplexity) return {std::exp(-sum / weight), {}};
  if (metric.aggregation == Aggregation::kBits) return {-sum / weight / std::log(2.0), {}};
  if (metric.aggregation == Aggregation::kCorpus) {
    const auto evaluation = corpus_evaluation(metric.name, values);
    if (!evaluation.ok()) return {kUndefined, {}};
    ResampleOptions options;
    options.resamples = values.size() > 20'000 ? 100 : 1000;  // fewer, to bound the time
    return {evaluation->score, values.size() < 2 ? std::nullopt : bootstrap_error(*evaluation, options)};
  }
  const auto count = static_cast<double>(values.size());
  const double mean = sum / count;
  for (const MetricValue& one : values) squares += (one.value - mean) * (one.value - mean);
  if (values.size() < 2) return {mean, {}};
  return {mean, std::sqrt(squares / (count - 1) / count)};
}

}  // namespace makar
