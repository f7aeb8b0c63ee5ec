// Chooses the labels of a text by their scores and --threshold.
#pragma once
#include "cli/classify_output.h"

namespace makar {

// --threshold: X applies to all labels, NAME=X to one.
class LabelThresholds {
 public:
  static Result<LabelThresholds> parse(const std::vector<std::string>& texts, const ClassLabels& labels);
  // The labels of a text, the most probable first. Exclusive labels: at most one, the most probable label
  // that reaches its own threshold; otherwise the most probable label without one, if it reaches the general
  // threshold.
  std::vector<size_t> choose(const std::vector<double>& scores) const;

 private:
  bool several_ = false;
  double general_ = 0;
  std::vector<double> own_;  // NaN: none
};

}  // namespace makar
