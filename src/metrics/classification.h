// Classification: labels against labels, and probabilities against labels. Definitions and names of
// scikit-learn.
#pragma once
#include "metrics/evaluation.h"

namespace makar {

// Counts by [true label][predicted label]; labels sorted as numbers if all are numbers, else as texts.
struct Confusion {
  std::vector<std::string> labels;
  std::vector<std::vector<int64_t>> counts;
  std::vector<uint32_t> truth, predicted;  // indices of labels, for each item
};
// kLimit with more than kMaxClassLabels different labels.
constexpr size_t kMaxClassLabels = 4096;
Result<Confusion> confuse(const std::vector<std::string>& predicted, const std::vector<std::string>& truth);
// Sorted as numbers if all are numbers, else as texts; without duplicates.
std::vector<std::string> sorted_labels(std::vector<std::string> labels);

struct ClassScores {
  std::string label;
  double precision = 0, recall = 0, f1 = 0;
  int64_t support = 0;
};
std::vector<ClassScores> class_scores(const Confusion& confusion);

double accuracy(const Confusion& confusion);
double balanced_accuracy(const Confusion& confusion);
enum class Average { kMacro, kMicro, kWeighted };
double f1_score(const Confusion& confusion, Average average);
double matthews(const Confusion& confusion);  // for any number of classes (Gorodkin, 2004)
double cohen_kappa(const Confusion& confusion,
                   int64_t power = 0);  // disagreement weighted by |i - j|^power; 0: equally

// The score is the one named: accuracy, balanced_accuracy, f1_macro, f1_micro, f1_weighted, mcc, kappa.
Result<Evaluation> evaluate_classes(const std::vector<std::string>& predicted,
                                    const std::vector<std::string>& truth, const std::string& main,
                                    int64_t kappa_power = 0);

// Scores of the positive class against 0 and 1.
double auroc(const std::vector<double>& scores, const std::vector<bool>& positive);
double average_precision(const std::vector<double>& scores, const std::vector<bool>& positive);

// Probabilities by [item][class], in the order of `labels`.
struct Probabilities {
  std::vector<std::string> labels;
  std::vector<std::vector<double>> rows;
  std::vector<uint32_t> truth;
};
struct CalibrationBin {
  double confidence = 0, accuracy = 0;  // means
  int64_t count = 0;
};
// Equal-width bins of the confidence: of the most probable class, or of the positive class if there are two.
std::vector<CalibrationBin> calibration_bins(const Probabilities& p, size_t bins);
double expected_calibration_error(const std::vector<CalibrationBin>& bins);
double maximum_calibration_error(const std::vector<CalibrationBin>& bins);
double brier_score(const Probabilities& p);  // two classes: of the positive one, as scikit-learn
double log_loss(const Probabilities& p);

// The score is the one named: auroc, average_precision, calibration_error, brier, log_loss. More than two
// classes: the mean of one class against the others.
Result<Evaluation> evaluate_probabilities(const Probabilities& p, const std::string& main, int64_t bins);

}  // namespace makar
