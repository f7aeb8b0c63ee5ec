// Chooses the labels of a text by their scores and --threshold.
#pragma once
#include "cli/classify_output.h"

namespace makar {

// --threshold: X applies to all labels, LABEL=X to one.
class LabelThresholds {
 public:
  static Result<LabelThresholds> parse(const std::vector<std::string>& texts, const ClassLabels& labels);
  // The labels of a text, the most probable first. Exclusive labels: at most one, the most probable label
  // that reaches its own threshold; otherwise the most probable label without one, if it reaches the default
  // threshold.
  std::vector<size_t> choose(const std::vector<double>& scores) const;

 private:
  bool multi_label_ = false;
  double default_ = 0;             // of all labels without their own threshold
  std::vector<double> per_label_;  // LABEL=X; NaN if the label has no threshold of its own
};

}  // namespace makar
