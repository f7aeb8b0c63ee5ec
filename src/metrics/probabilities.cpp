// Probabilities against labels: ranking (AUROC, average precision), calibration, Brier score, log loss.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "metrics/classification.h"

namespace makar {
namespace {

std::vector<size_t> by_score(const std::vector<double>& scores) {  // descending
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return order;
}

// Calls f with the counts of positives and negatives at or above each threshold, once per distinct score.
template <class F>
void each_threshold(const std::vector<double>& scores, const std::vector<bool>& positive, const F& f) {
  const auto order = by_score(scores);
  double positives = 0, negatives = 0;
  for (size_t i = 0; i < order.size();) {
    const double score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i)
      (positive[order[i]] ? positives : negatives) += 1;
    f(positives, negatives);
  }
}

// One-vs-rest: the mean over classes; with two classes, only the second (positive) one.
template <class F>
double one_vs_rest(const Probabilities& p, const F& f) {
  double sum = 0;
  const size_t from = p.labels.size() == 2 ? 1 : 0;
  for (size_t c = from; c < p.labels.size(); ++c) {
    std::vector<double> scores;
    std::vector<bool> positive;
    for (size_t i = 0; i < p.rows.size(); ++i)
      scores.push_back(p.rows[i][c]), positive.push_back(p.truth[i] == c);
    sum += f(scores, positive);
  }
  return sum / static_cast<double>(p.labels.size() - from);
}

bool needs_probabilities(const std::string& name) { return name != "auroc" && name != "average_precision"; }

double probability_metric(const Probabilities& p, const std::string& name, size_t bins) {
  if (name == "average_precision")
    return one_vs_rest(p, [](const auto& s, const auto& y) { return average_precision(s, y); });
  if (name == "calibration_error") return expected_calibration_error(calibration_bins(p, bins));
  if (name == "max_calibration_error") return maximum_calibration_error(calibration_bins(p, bins));
  if (name == "brier") return brier_score(p);
  if (name == "log_loss") return log_loss(p);
  return one_vs_rest(p, [](const auto& s, const auto& y) { return auroc(s, y); });
}

}  // namespace

double auroc(const std::vector<double>& scores, const std::vector<bool>& positive) {
  double area = 0, last_p = 0, last_n = 0;
  each_threshold(scores, positive, [&](double p, double n) {
    area += (n - last_n) * (p + last_p) / 2;
    last_p = p, last_n = n;
  });
  return last_p > 0 && last_n > 0 ? area / (last_p * last_n) : NAN;
}

double average_precision(const std::vector<double>& scores, const std::vector<bool>& positive) {
  double sum = 0, last_p = 0;
  each_threshold(scores, positive, [&](double p, double n) {
    sum += (p - last_p) * p / (p + n);
    last_p = p;
  });
  return last_p > 0 ? sum / last_p : 0;
}

std::vector<CalibrationBin> calibration_bins(const Probabilities& p, size_t bins) {
  std::vector<CalibrationBin> out(bins);
  for (size_t i = 0; i < p.rows.size(); ++i) {
    const auto& row = p.rows[i];
    const size_t best = p.labels.size() == 2
                            ? 1
                            : static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    // Bins are open below and closed above, as in Guo et al. (2017).
    const double at = std::ceil(row[best] * static_cast<double>(bins)) - 1;
    CalibrationBin& bin = out[static_cast<size_t>(std::clamp(at, 0.0, static_cast<double>(bins - 1)))];
    bin.confidence += row[best], bin.accuracy += p.truth[i] == best ? 1 : 0, ++bin.count;
  }
  for (CalibrationBin& bin : out) {
    const double count = bin.count > 0 ? static_cast<double>(bin.count) : 1;
    bin.confidence /= count, bin.accuracy /= count;
  }
  return out;
}

double expected_calibration_error(const std::vector<CalibrationBin>& bins) {
  double sum = 0, count = 0;
  for (const CalibrationBin& b : bins) {
    sum += static_cast<double>(b.count) * std::abs(b.accuracy - b.confidence);
    count += static_cast<double>(b.count);
  }
  return count > 0 ? sum / count : 0;
}

double maximum_calibration_error(const std::vector<CalibrationBin>& bins) {
  double max = 0;
  for (const CalibrationBin& b : bins)
    if (b.count > 0) max = std::max(max, std::abs(b.accuracy - b.confidence));
  return max;
}

double brier_score(const Probabilities& p) {
  double sum = 0;
  for (size_t i = 0; i < p.rows.size(); ++i)
    for (size_t c = p.labels.size() == 2 ? 1 : 0; c < p.labels.size(); ++c) {
      const double gap = p.rows[i][c] - (p.truth[i] == c ? 1 : 0);
      sum += gap * gap;
    }
  return p.rows.empty() ? 0 : sum / static_cast<double>(p.rows.size());
}

double log_loss(const Probabilities& p) {
  constexpr double kEpsilon = 2.220446049250313e-16;  // scikit-learn's bound: the epsilon of doubles
  double sum = 0;
  for (size_t i = 0; i < p.rows.size(); ++i)
    sum -= std::log(std::clamp(p.rows[i][p.truth[i]], kEpsilon, 1 - kEpsilon));
  return p.rows.empty() ? 0 : sum / static_cast<double>(p.rows.size());
}

Result<Evaluation> evaluate_probabilities(const Probabilities& probabilities, const std::string& main,
                                          int64_t bins) {
  const auto p = std::make_shared<const Probabilities>(probabilities);
  const auto n = static_cast<size_t>(bins);
  Evaluation out;
  out.name = main, out.units = p->rows.size();
  out.signature = fmt::format("classes:{}|items:{}", p->labels.size(), p->rows.size());
  if (p->labels.size() == 2) out.signature += "|positive:" + p->labels[1];
  if (main == "calibration_error") out.signature += fmt::format("|bins:{}|norm:l1", bins);
  bool all_in_range = true;  // 0 to 1; ranking metrics accept any numbers
  for (const auto& row : p->rows)
    for (const double one : row) all_in_range = all_in_range && one >= 0 && one <= 1;
  if (!all_in_range && needs_probabilities(main)) return error_at(main, "needs probabilities from 0 to 1");
  out.score = probability_metric(*p, main, n);
  if (!std::isfinite(out.score))
    return error_at(main, "every item has the same label; the score needs at least two labels");
  out.lower_is_better = needs_probabilities(main);
  out.score_of = [p, main, n](Sample sample) {
    Probabilities drawn{p->labels, {}, {}};
    for (const uint32_t i : sample) drawn.rows.push_back(p->rows[i]), drawn.truth.push_back(p->truth[i]);
    return probability_metric(drawn, main, n);
  };
  for (const char* metric :
       {"auroc", "average_precision", "calibration_error", "max_calibration_error", "brier", "log_loss"}) {
    if (!all_in_range && needs_probabilities(metric)) continue;
    const double value = probability_metric(*p, metric, n);
    out.details[metric] = std::isfinite(value) ? Json(value) : Json();
  }
  if (!all_in_range) return out;
  for (const CalibrationBin& b : calibration_bins(*p, n))
    out.details["bins"].push_back(
        {{"confidence", b.confidence}, {"accuracy", b.accuracy}, {"count", b.count}});
  return out;
}

}  // namespace makar
