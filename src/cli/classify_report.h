// Scores of a classifier on labelled texts: for classes accuracy, F1, scores per label, the confusion matrix
// and, with two labels, the best threshold; for numbers the error and correlations.
#pragma once
#include "cli/classify_output.h"

namespace makar {

struct ClassifiedSet {
  const ClassLabels& labels;
  std::vector<std::string> predicted, truth;
  std::vector<std::vector<double>> scores;  // of each label
  std::vector<double> numbers, true_numbers;

  // Fails if the model predicts a number and `truth` is not a number.
  Status add(const ClassAnswer& answer, const std::string& label, const std::string& truth);
  Result<Json> measure() const;
};

// The threshold of a label's score that maximises the label's F1; the highest one if several do.
struct BestThreshold {
  double threshold = 0, f1 = 0;
};
BestThreshold best_threshold(const std::vector<double>& scores, const std::vector<bool>& positive);

// The scores of ClassifiedSet::measure() for the terminal.
std::string classification_text(const Json& scores);

}  // namespace makar
