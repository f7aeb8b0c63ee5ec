// Linear classifiers of texts: naive Bayes (multinomial, on counts), logistic regression (softmax, L2, by
// L-BFGS) and a linear support vector machine (squared hinge, one-vs-rest, by dual coordinate
// descent: Hsieh et al., 2008).
#pragma once
#include <string>
#include <vector>

#include "lexical/text_features.h"

namespace makar {

struct TextsWithLabels {
  std::vector<std::string> texts, labels;
};
// Records with a text and a label.
Result<TextsWithLabels> read_labelled_texts(const std::vector<DataPath>& paths);

struct ClassifierOptions {
  std::string method = "logistic";  // naive-bayes, logistic, svm
  FeatureOptions features;
  double strength = 1;    // C: inverse regularisation strength
  double smoothing = 1;   // naive Bayes: added to counts
  bool balanced = false;  // logistic: weight classes inversely to their frequency
  int64_t iterations = 200;
  int64_t seed = 1;
};
Status check(const ClassifierOptions& options);

class TextClassifier {
 public:
  struct Answer {
    size_t label;
    std::vector<double> scores;  // of each label: probabilities, or margins of the svm
  };
  static Result<TextClassifier> train(const TextsWithLabels& data, const ClassifierOptions& options);
  Answer classify(std::string_view text) const;
  const std::vector<std::string>& labels() const { return labels_; }
  const std::string& method() const { return method_; }
  const TextFeatures& features() const { return features_; }
  // [label][feature, then the bias]
  const std::vector<std::vector<double>>& weights() const { return weights_; }

  Json json() const;
  static Result<TextClassifier> from_json(const Json& json, const std::string& place);

 private:
  std::string method_;
  std::vector<std::string> labels_;
  TextFeatures features_;
  std::vector<std::vector<double>> weights_;
};

// Share of texts that are classified with their label.
double accuracy_of(const TextClassifier& classifier, const TextsWithLabels& data);

// Minimises a function by L-BFGS (Nocedal, 1980) with backtracking; `value` returns the value of
// the function and fills the gradient. Returns the norm of the last gradient.
double minimize(
    std::vector<double>& x, int64_t iterations,
    const std::function<double(const std::vector<double>& x, std::vector<double>& gradient)>& value);

}  // namespace makar
