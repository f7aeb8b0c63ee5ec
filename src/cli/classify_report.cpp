#include "cli/classify_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "metrics/agreement.h"
#include "metrics/classification.h"

namespace makar {
namespace {

constexpr const char* kNoLabel = "(none)";

}  // namespace

Status ClassifiedSet::add(const ClassAnswer& answer, const std::string& label, const std::string& expected) {
  if (!answer.scores.empty()) {
    predicted.push_back(label.empty() ? kNoLabel : label), truth.push_back(expected);
    scores.push_back(answer.scores);
    return Done{};
  }
  double number = 0;
  const auto [end, code] = std::from_chars(expected.data(), expected.data() + expected.size(), number);
  if (code != std::errc() || end != expected.data() + expected.size() || !std::isfinite(number))
    return error_at("", "the model predicts numbers, but the label is '{}'", expected);
  numbers.push_back(answer.json["score"].get<double>()), true_numbers.push_back(number);
  return Done{};
}

BestThreshold best_threshold(const std::vector<double>& scores, const std::vector<bool>& positive) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  const auto positives = static_cast<double>(std::count(positive.begin(), positive.end(), true));
  BestThreshold best;
  double true_positives = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    true_positives += positive[order[i]] ? 1 : 0;
    if (i + 1 < order.size() && scores[order[i + 1]] == scores[order[i]]) continue;
    const double f1 = 2 * true_positives / (static_cast<double>(i + 1) + positives);
    if (f1 > best.f1) best = {scores[order[i]], f1};
  }
  return best;
}

Result<Json> ClassifiedSet::measure() const {
  if (!numbers.empty()) {
    double sum = 0;
    for (size_t i = 0; i < numbers.size(); ++i) sum += std::pow(numbers[i] - true_numbers[i], 2);
    return Json{{"texts", numbers.size()},
                {"mse", sum / static_cast<double>(numbers.size())},
                {"pearson", pearson(numbers, true_numbers)},
                {"spearman", spearman(numbers, true_numbers)}};
  }
  MAKAR_TRY(const Evaluation e, evaluate_classes(predicted, truth, "accuracy"));
  Json out = e.details;
  out["texts"] = truth.size();
  if (labels.names.size() == 2 && !labels.multi_label) {
    std::vector<double> second;
    std::vector<bool> positive;
    for (size_t i = 0; i < truth.size(); ++i)
      second.push_back(scores[i][1]), positive.push_back(truth[i] == labels.names[1]);
    const auto count = std::count(positive.begin(), positive.end(), true);
    if (count > 0 && count < static_cast<int64_t>(positive.size())) {
      const BestThreshold best = best_threshold(second, positive);
      out["auroc"] = auroc(second, positive);
      out["best_threshold"] = {{"label", labels.names[1]}, {"threshold", best.threshold}, {"f1", best.f1}};
    }
  }
  return out;
}

std::string classification_text(const Json& scores) {
  std::string out = fmt::format("{:<18} {}\n", "texts", scores["texts"].get<int64_t>());
  for (const char* name : {"accuracy", "balanced_accuracy", "f1_macro", "f1_weighted", "mcc", "auroc", "mse",
                           "pearson", "spearman"})
    if (scores.contains(name)) out += fmt::format("{:<18} {:.4f}\n", name, scores[name].get<double>());
  if (!scores.contains("confusion")) return out;
  const auto labels = scores["labels"].get<std::vector<std::string>>();
  size_t width = 6;
  for (const std::string& label : labels) width = std::max(width, label.size());
  width = std::min<size_t>(width, 24);
  const auto fitted = [&](const std::string& label) { return fmt::format("{:<{}.{}}", label, width, width); };
  out += fmt::format("\n{}  precision  recall      f1   texts\n", fitted("label"));
  for (const Json& c : scores["classes"])
    out += fmt::format("{}  {:>9.4f}  {:>6.4f}  {:>6.4f}  {:>6}\n", fitted(c["label"].get<std::string>()),
                       c["precision"].get<double>(), c["recall"].get<double>(), c["f1"].get<double>(),
                       c["support"].get<int64_t>());
  constexpr size_t kMaxMatrixLabels = 20;
  if (labels.size() > kMaxMatrixLabels) {
    out += fmt::format("\nThe confusion matrix of {} labels is in the output of --json.\n", labels.size());
  } else {
    out += "\nconfusion matrix: a row per true label, a column per predicted one\n" + fitted("");
    for (const std::string& label : labels) out += fmt::format("  {:>{}.{}}", label, width, width);
    out += "\n";
    for (size_t i = 0; i < labels.size(); ++i) {
      out += fitted(labels[i]);
      for (const Json& n : scores["confusion"][i]) out += fmt::format("  {:>{}}", n.get<int64_t>(), width);
      out += "\n";
    }
  }
  if (scores.contains("best_threshold"))
    out += fmt::format("\nbest F1 of '{}': {:.4f} with --threshold '{}={}'\n",
                       scores["best_threshold"]["label"].get<std::string>(),
                       scores["best_threshold"]["f1"].get<double>(),
                       scores["best_threshold"]["label"].get<std::string>(),
                       scores["best_threshold"]["threshold"].get<double>());
  return out;
}

}  // namespace makar
