// Chooses the labels of a text by their scores and --threshold.
#pragma once
#include "cli/classify_output.h"

namespace makar {

// --threshold: X applies to all labels, NAME=X to one.
class LabelThresholds {
 public:
  static Result<LabelThresholds> parse(const std::vector<std::string>& texts, const ClassLabels& labels);
  // The labels of a text, at most one if they are exclusive: the most probable of those that reach a
  // threshold of their own; else the most probable of the others, if it reaches the general one.
  std::vector<size_t> choose(const std::vector<double>& scores) const;

 private:
  bool several_ = false;
  double general_ = 0;
  std::vector<double> own_;  // NaN: none
};

}  // namespace makar
