// Group fairness of binary decisions. Names and definitions of Fairlearn.
#pragma once
#include "metrics/evaluation.h"

namespace makar {

struct GroupRates {
  std::string group;
  int64_t count = 0, positives = 0, negatives = 0;  // positives and negatives by the true label
  double selection_rate = 0, accuracy = 0;
  double true_positive_rate = 0, false_positive_rate = 0;  // 0 without positives or negatives
};
struct FairnessItems {
  std::vector<bool> predicted, truth;
  std::vector<std::string> groups;  // for each item
};
std::vector<GroupRates> group_rates(const FairnessItems& items, Sample sample);

// demographic_parity, equal_opportunity and equalized_odds, each "_difference" (largest rate minus smallest)
// and "_ratio" (smallest divided by largest). Equalized odds: the worse of true and false positive rates.
double fairness_metric(const std::vector<GroupRates>& rates, const std::string& name);
std::vector<std::string> fairness_metrics();
Evaluation evaluate_fairness(const FairnessItems& items, const std::string& main);

// How often each group occurs, compared with its share of `expected` (equal shares if empty). The score
// is the total variation distance: 0 where shares agree.
Evaluation evaluate_representation(const std::vector<std::string>& groups,
                                   const std::vector<std::pair<std::string, double>>& expected);

}  // namespace makar
