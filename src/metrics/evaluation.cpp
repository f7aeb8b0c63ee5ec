#include "metrics/evaluation.h"

#include <memory>
#include <numeric>

namespace makar {

std::string reference_count(const Segments& segments) {
  if (segments.empty()) return "0";
  for (const Segment& s : segments)
    if (s.references.size() != segments[0].references.size()) return "var";
  return std::to_string(segments[0].references.size());
}

Statistics sum_of(std::span<const Statistics> statistics) {
  Statistics sums;
  for (const Statistics& one : statistics) {
    sums.resize(std::max(sums.size(), one.size()));
    for (size_t i = 0; i < one.size(); ++i) sums[i] += one[i];
  }
  return sums;
}

Evaluation evaluation_of_sums(std::string name, std::string signature, std::vector<Statistics> units,
                              std::function<double(std::span<const double>)> score) {
  Evaluation out;
  out.name = std::move(name), out.signature = std::move(signature), out.units = units.size();
  for (const Statistics& unit : units) out.unit_scores.push_back(score(unit));
  out.score = score(sum_of(units));
  const auto shared = std::make_shared<const std::vector<Statistics>>(std::move(units));
  out.score_of = [shared, score = std::move(score)](Sample sample) {
    Statistics sums(shared->empty() ? 0 : shared->front().size());
    for (const uint32_t unit : sample)
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += (*shared)[unit][i];
    return score(sums);
  };
  return out;
}

Evaluation evaluation_of_mean(std::string name, std::string signature, std::vector<double> unit_scores,
                              double scale) {
  std::vector<Statistics> units;
  for (const double one : unit_scores) units.push_back({one, 1});
  return evaluation_of_sums(std::move(name), std::move(signature), std::move(units),
                            [scale](std::span<const double> sums) {
                              return sums.empty() || sums[1] == 0 ? 0 : scale * sums[0] / sums[1];
                            });
}

std::string segment_place(size_t index) { return fmt::format("line {}", index + 1); }

}  // namespace makar
