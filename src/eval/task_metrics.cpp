#include "eval/task_metrics.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "metrics/squad.h"
#include "metrics/words.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr TaskMetric kMetrics[] = {
    {"acc", OutputType::kMultipleChoice, Aggregation::kMean, true},
    {"acc_norm", OutputType::kMultipleChoice, Aggregation::kMean, true},
    {"acc_bytes", OutputType::kMultipleChoice, Aggregation::kMean, true},
    {"brier_score", OutputType::kMultipleChoice, Aggregation::kMean, false},
    {"mc2", OutputType::kMultipleChoice, Aggregation::kMean, true},
    {"pct_stereotype", OutputType::kMultipleChoice, Aggregation::kMean, false},
    {"perplexity", OutputType::kLoglikelihood, Aggregation::kPerplexity, false},
    {"acc", OutputType::kLoglikelihood, Aggregation::kMean, true},
    {"word_perplexity", OutputType::kRolling, Aggregation::kPerplexity, false},
    {"byte_perplexity", OutputType::kRolling, Aggregation::kPerplexity, false},
    {"bits_per_byte", OutputType::kRolling, Aggregation::kBits, false},
    {"exact_match", OutputType::kGenerate, Aggregation::kMean, true},
    {"squad_exact", OutputType::kGenerate, Aggregation::kMean, true},
    {"squad_f1", OutputType::kGenerate, Aggregation::kMean, true},
};

bool is_gold(const Json& target, size_t index) {
  if (!target.is_array()) return target.get<size_t>() == index;
  return std::any_of(target.begin(), target.end(),
                     [&](const Json& one) { return one.get<size_t>() == index; });
}

double characters_in(const std::string& text) {
  return static_cast<double>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Probabilities in proportion to exp(log-likelihood).
std::vector<double> softmax(const std::vector<double>& logs) {
  const double most = *std::max_element(logs.begin(), logs.end());
  std::vector<double> out;
  double sum = 0;
  for (const double one : logs) sum += out.emplace_back(std::exp(one - most));
  for (double& one : out) one /= sum;
  return out;
}

double choice_metric(const std::string& name, const Question& question, const Json& responses) {
  std::vector<double> scores;
  for (size_t i = 0; i < question.choices.size(); ++i) {
    const double length = name == "acc_norm"    ? characters_in(question.choices[i])
                          : name == "acc_bytes" ? static_cast<double>(question.choices[i].size())
                                                : 1;
    scores.push_back(responses[i][0].get<double>() / std::max(length, 1.0));
  }
  if (name == "mc2" || name == "brier_score") {
    const auto p = softmax(scores);
    double correct = 0, brier = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      const bool gold = is_gold(question.target, i);
      correct += gold ? p[i] : 0;
      brier += (p[i] - (gold ? 1 : 0)) * (p[i] - (gold ? 1 : 0));
    }
    return name == "mc2" ? correct : brier;
  }
  // The first of equal ones, as numpy's argmax.
  const auto best = static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  return is_gold(question.target, best) ? 1 : 0;
}

// lm-eval's count: the pieces between runs of white space, empty ones at both ends too.
double words_in(const std::string& text) {
  double words = 1;
  for (size_t i = 0; i < text.size(); ++i)
    if (std::isspace(static_cast<unsigned char>(text[i])) &&
        (i == 0 || !std::isspace(static_cast<unsigned char>(text[i - 1]))))
      ++words;
  return words;
}

// The text as exact_match compares it.
std::string compared(const MetricOptions& metric, std::string text) {
  for (const Regex& regex : metric.regexes_to_ignore) {
    std::vector<Span> spans;
    if (!regex.find_all(text, spans).ok()) continue;
    std::string kept;
    size_t at = 0;
    for (const Span& span : spans) kept += text.substr(at, span.begin - at), at = span.end;
    text = kept + text.substr(at);
  }
  if (metric.ignore_case) text = lowered(text);
  if (metric.ignore_punctuation)
    std::erase_if(text, [](char c) { return std::ispunct(static_cast<unsigned char>(c)); });
  return text;
}

double answer_metric(const MetricOptions& metric, const Question& question, const std::string& answer) {
  double best = 0;
  for (const std::string& target : question.targets) {
    double value = 0;
    if (metric.name == "squad_f1")
      value = squad_f1(answer, target);
    else if (metric.name == "squad_exact")
      value = squad_exact(answer, target) ? 1 : 0;
    else
      value = compared(metric, answer) == compared(metric, to_valid_utf8(target)) ? 1 : 0;
    best = std::max(best, value);
  }
  return best;
}

}  // namespace

std::vector<std::string> metric_names(OutputType type) {
  std::vector<std::string> out;
  for (const TaskMetric& metric : kMetrics)
    if (metric.output == type) out.emplace_back(metric.name);
  return out;
}

const TaskMetric& task_metric(OutputType output, const std::string& name) {
  for (const TaskMetric& metric : kMetrics)
    if (metric.output == output && name == metric.name) return metric;
  check(false, "unknown metric " + name);
  return kMetrics[0];
}

MetricValue document_metric(const MetricOptions& metric, OutputType output, const Question& question,
                            const Json& responses) {
  switch (output) {
    case OutputType::kMultipleChoice:
      return {choice_metric(metric.name, question, responses)};
    case OutputType::kLoglikelihood:
      if (metric.name == "acc") return {responses[0][1].get<bool>() ? 1.0 : 0.0};
      return {responses[0][0].get<double>()};
    case OutputType::kRolling: {
      const std::string& text = question.targets[0];
      return {responses[0][0].get<double>(),
              metric.name == "word_perplexity" ? words_in(text) : static_cast<double>(text.size())};
    }
    case OutputType::kGenerate:
      break;
  }
  return {answer_metric(metric, question, responses[0].get<std::string>())};
}

TaskScore aggregate(const TaskMetric& metric, const std::vector<MetricValue>& values) {
  double sum = 0, weight = 0, squares = 0;
  for (const MetricValue& one : values) sum += one.value, weight += one.weight;
  if (metric.aggregation == Aggregation::kPerplexity) return {std::exp(-sum / weight), {}};
  if (metric.aggregation == Aggregation::kBits) return {-sum / weight / std::log(2.0), {}};
  const auto count = static_cast<double>(values.size());
  const double mean = sum / count;
  for (const MetricValue& one : values) squares += (one.value - mean) * (one.value - mean);
  if (values.size() < 2) return {mean, {}};
  return {mean, std::sqrt(squares / (count - 1) / count)};
}

}  // namespace makar
