// Agreement of raters, correlation of numbers, win rates, pass@k.
#pragma once
#include "metrics/evaluation.h"

namespace makar {

// Fleiss' kappa (1971) of labels by [rater][item]. Needs two raters.
double fleiss_kappa(const std::vector<std::vector<std::string>>& raters);
Evaluation evaluate_fleiss(const std::vector<std::vector<std::string>>& raters);

double pearson(const std::vector<double>& x, const std::vector<double>& y);
double spearman(const std::vector<double>& x, const std::vector<double>& y);  // ties get their mean rank
double kendall(const std::vector<double>& x, const std::vector<double>& y);   // tau-b
// `main` is the correlation that is the score: pearson, spearman or kendall. Fails if a list is constant.
Result<Evaluation> evaluate_correlation(const std::vector<double>& x, const std::vector<double>& y,
                                        const std::string& main);

// Outcomes of comparisons, each "win", "tie" or "loss": (wins + ties / 2) / all. Fails on any other word.
Result<Evaluation> evaluate_win_rate(const std::vector<std::string>& outcomes);

// The probability that at least one of k samples passes, from n samples of which c passed (Chen et al.,
// 2021).
double pass_at(int64_t n, int64_t c, int64_t k);
struct Attempts {
  std::string problem;
  int64_t total = 0, passed = 0;
};
// The mean over problems. Fails if a problem has fewer than k samples.
Result<Evaluation> evaluate_pass(const std::vector<Attempts>& problems, int64_t k);

}  // namespace makar
