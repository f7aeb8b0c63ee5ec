#include "metrics/classification.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>

namespace makar {
namespace {

std::optional<double> as_number(const std::string& text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

struct Margins {
  std::vector<double> truth, predicted, right;
  double total = 0;
};
Margins margins(const Confusion& c) {
  const size_t n = c.labels.size();
  Margins m{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)};
  for (size_t t = 0; t < n; ++t)
    for (size_t p = 0; p < n; ++p) {
      const auto count = static_cast<double>(c.counts[t][p]);
      m.truth[t] += count, m.predicted[p] += count, m.total += count;
      if (t == p) m.right[t] = count;
    }
  return m;
}

double class_metric(const Confusion& c, const std::string& name, int64_t kappa_power) {
  if (name == "balanced_accuracy") return balanced_accuracy(c);
  if (name == "f1_macro") return f1_score(c, Average::kMacro);
  if (name == "f1_micro") return f1_score(c, Average::kMicro);
  if (name == "f1_weighted") return f1_score(c, Average::kWeighted);
  if (name == "mcc") return matthews(c);
  if (name == "kappa") return cohen_kappa(c, kappa_power);
  return accuracy(c);
}

}  // namespace

std::vector<std::string> sorted_labels(std::vector<std::string> labels) {
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  if (std::all_of(labels.begin(), labels.end(),
                  [](const std::string& l) { return as_number(l).has_value(); }))
    std::stable_sort(labels.begin(), labels.end(), [](const std::string& a, const std::string& b) {
      return *as_number(a) < *as_number(b);
    });
  return labels;
}

Result<Confusion> confuse(const std::vector<std::string>& predicted, const std::vector<std::string>& truth) {
  Confusion c;
  std::vector<std::string> all = predicted;
  all.insert(all.end(), truth.begin(), truth.end());
  c.labels = sorted_labels(std::move(all));
  if (c.labels.size() > kMaxClassLabels)
    return error_of(Error::Kind::kLimit, "labels",
                    "{} different labels, at most {} are supported; are these texts?", c.labels.size(),
                    kMaxClassLabels);
  std::unordered_map<std::string, uint32_t> index;
  for (size_t i = 0; i < c.labels.size(); ++i) index[c.labels[i]] = static_cast<uint32_t>(i);
  c.counts.assign(c.labels.size(), std::vector<int64_t>(c.labels.size()));
  for (size_t i = 0; i < truth.size(); ++i) {
    c.truth.push_back(index[truth[i]]), c.predicted.push_back(index[predicted[i]]);
    ++c.counts[c.truth[i]][c.predicted[i]];
  }
  return c;
}

std::vector<ClassScores> class_scores(const Confusion& c) {
  const Margins m = margins(c);
  std::vector<ClassScores> out;
  for (size_t i = 0; i < c.labels.size(); ++i)
    out.push_back({c.labels[i], ratio(m.right[i], m.predicted[i]), ratio(m.right[i], m.truth[i]),
                   ratio(2 * m.right[i], m.predicted[i] + m.truth[i]), static_cast<int64_t>(m.truth[i])});
  return out;
}

double accuracy(const Confusion& c) {
  const Margins m = margins(c);
  double right = 0;
  for (const double r : m.right) right += r;
  return ratio(right, m.total);
}

double balanced_accuracy(const Confusion& c) {
  double sum = 0, classes = 0;
  for (const ClassScores& s : class_scores(c))
    if (s.support > 0) sum += s.recall, classes += 1;
  return ratio(sum, classes);
}

double f1_score(const Confusion& c, Average average) {
  if (average == Average::kMicro) return accuracy(c);  // the same where every item has one label
  const Margins m = margins(c);
  double sum = 0, weights = 0;
  for (size_t i = 0; i < c.labels.size(); ++i) {
    if (m.truth[i] + m.predicted[i] == 0) continue;  // a class of the whole set that this sample lacks
    const double weight = average == Average::kMacro ? 1 : m.truth[i];
    sum += weight * ratio(2 * m.right[i], m.predicted[i] + m.truth[i]), weights += weight;
  }
  return ratio(sum, weights);
}

double matthews(const Confusion& c) {
  const Margins m = margins(c);
  double right = 0, both = 0, truth = 0, predicted = 0;
  for (size_t i = 0; i < c.labels.size(); ++i) {
    right += m.right[i], both += m.truth[i] * m.predicted[i];
    truth += m.truth[i] * m.truth[i], predicted += m.predicted[i] * m.predicted[i];
  }
  const double square = m.total * m.total;
  return ratio(right * m.total - both, std::sqrt((square - truth) * (square - predicted)));
}

double cohen_kappa(const Confusion& c, int64_t power) {
  const Margins m = margins(c);
  double observed = 0, expected = 0;
  for (size_t i = 0; i < c.labels.size(); ++i)
    for (size_t j = 0; j < c.labels.size(); ++j) {
      const double gap = std::abs(static_cast<double>(i) - static_cast<double>(j));
      const double weight = i == j ? 0 : std::pow(gap, static_cast<double>(power));
      observed += weight * static_cast<double>(c.counts[i][j]);
      expected += weight * m.truth[i] * m.predicted[j] / m.total;
    }
  // Without disagreement by chance there is nothing to correct.
  return expected > 0 ? 1 - observed / expected : observed == 0 ? 1 : 0;
}

Result<Evaluation> evaluate_classes(const std::vector<std::string>& predicted,
                                    const std::vector<std::string>& truth, const std::string& main,
                                    int64_t kappa_power) {
  MAKAR_TRY(Confusion made, confuse(predicted, truth));
  const auto c = std::make_shared<const Confusion>(std::move(made));
  Evaluation out;
  out.name = main;
  out.units = truth.size();
  const char* const weights[] = {"none", "linear", "quadratic"};
  out.signature = fmt::format("classes:{}|items:{}", c->labels.size(), truth.size());
  if (main == "kappa")
    out.signature += fmt::format("|weights:{}", weights[std::clamp<int64_t>(kappa_power, 0, 2)]);
  for (size_t i = 0; i < truth.size(); ++i) out.correct.push_back(c->truth[i] == c->predicted[i]);
  if (main == "accuracy")
    for (const bool right : out.correct) out.each.push_back(right ? 1 : 0);
  out.score = class_metric(*c, main, kappa_power);
  out.score_of = [c, main, kappa_power](Sample sample) {
    Confusion drawn{c->labels, std::vector(c->labels.size(), std::vector<int64_t>(c->labels.size())), {}, {}};
    for (const uint32_t i : sample) ++drawn.counts[c->truth[i]][c->predicted[i]];
    return class_metric(drawn, main, kappa_power);
  };
  for (const char* each :
       {"accuracy", "balanced_accuracy", "f1_macro", "f1_micro", "f1_weighted", "mcc", "kappa"})
    out.details[each] = class_metric(*c, each, kappa_power);
  for (const ClassScores& s : class_scores(*c))
    out.details["classes"].push_back({{"label", s.label},
                                      {"precision", s.precision},
                                      {"recall", s.recall},
                                      {"f1", s.f1},
                                      {"support", s.support}});
  out.details["labels"] = c->labels;
  out.details["confusion"] = c->counts;
  return out;
}

}  // namespace makar
