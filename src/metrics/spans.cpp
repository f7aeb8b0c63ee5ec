#include "metrics/spans.h"

#include <algorithm>
#include <map>

namespace makar {
namespace {

struct SpanCounts {
  double right = 0, predicted = 0, truth = 0;
};

Json span_prf(const SpanCounts& c) {
  const double p = c.predicted > 0 ? c.right / c.predicted : 0, r = c.truth > 0 ? c.right / c.truth : 0;
  return {{"precision", p},
          {"recall", r},
          {"f1", p + r > 0 ? 2 * p * r / (p + r) : 0},
          {"support", static_cast<int64_t>(c.truth)}};
}

}  // namespace

std::vector<LabelledSpan> spans_of(const std::vector<std::string>& tags) {
  std::vector<LabelledSpan> out;
  bool open = false;
  char last = 'O';
  for (size_t i = 0; i < tags.size(); ++i) {
    char kind = tags[i].empty() ? 'O' : tags[i][0];
    if (kind == 'L') kind = 'E';
    if (kind == 'U') kind = 'S';
    const size_t dash = tags[i].find('-');
    const std::string label = dash == std::string::npos ? "_" : tags[i].substr(dash + 1);
    const bool inside = kind != 'O';
    const bool starts = inside && (!open || kind == 'B' || kind == 'S' || last == 'E' || last == 'S' ||
                                   out.back().label != label);
    if (starts) out.push_back({label, i, i});
    open = inside;
    if (open) out.back().end = i + 1;
    last = kind;
  }
  return out;
}

Evaluation evaluate_spans(const std::vector<std::vector<std::string>>& predicted,
                          const std::vector<std::vector<std::string>>& truth) {
  std::vector<Statistics> units;
  std::map<std::string, SpanCounts> labels;
  SpanCounts all;
  for (size_t i = 0; i < truth.size(); ++i) {
    const auto predicted_spans = spans_of(predicted[i]),
               true_spans = spans_of(truth[i]);  // each in order, without duplicates
    Statistics unit(3);
    for (const LabelledSpan& s : true_spans) ++labels[s.label].truth, ++unit[2];
    for (const LabelledSpan& s : predicted_spans) {
      const auto found = std::lower_bound(true_spans.begin(), true_spans.end(), s,
                                          [](const auto& a, const auto& b) { return a.begin < b.begin; });
      const bool right = found != true_spans.end() && *found == s;
      ++labels[s.label].predicted, ++unit[1];
      labels[s.label].right += right ? 1 : 0, unit[0] += right ? 1 : 0;
    }
    all.right += unit[0], all.predicted += unit[1], all.truth += unit[2];
    units.push_back(std::move(unit));
  }
  const size_t sequences = truth.size();
  Evaluation out = evaluation_of_sums(
      "span_f1", fmt::format("mode:conlleval|average:micro|sequences:{}", sequences), std::move(units),
      [](std::span<const double> s) { return s[1] + s[2] > 0 ? 2 * s[0] / (s[1] + s[2]) : 0; });
  out.details = span_prf(all);
  for (const auto& [label, counts] : labels) out.details["labels"][label] = span_prf(counts);
  return out;
}

}  // namespace makar
