// Toxicity of texts by a classifier of `makar classify train --method logistic` or naive-bayes: offline,
// versioned, with results in the format of the Perspective API.
#pragma once
#include "lexical/text_classifier.h"

namespace makar {

// Labels of harmless texts by name: "neutral", "not-toxic", "neither", ...
bool is_benign_label(const std::string& label);

class ToxicityClassifier {
 public:
  // `benign`: the labels of harmless texts; empty: by name. Fails if none or all labels are benign, and for
  // an svm, whose scores are not probabilities.
  static Result<ToxicityClassifier> from_json(const Json& json, const std::string& place,
                                              const std::vector<std::string>& benign = {});
  static Result<ToxicityClassifier> open(const std::string& path,
                                         const std::vector<std::string>& benign = {});

  // The probability of all labels that are not benign; 0 for a text without a word of the classifier's
  // vocabulary.
  double toxicity(std::string_view text) const;
  // {"attributeScores": {"TOXICITY": {"summaryScore", "spanScores"}, ...}}: TOXICITY, and each label that is
  // not benign, in upper case. Spans count characters.
  Json perspective(const std::string& text) const;
  // "toxicity-logistic-" and the hash of the file: the same version gives the same scores.
  const std::string& version() const { return version_; }

 private:
  explicit ToxicityClassifier(TextClassifier classifier) : classifier_(std::move(classifier)) {}
  TextClassifier classifier_;
  std::vector<bool> benign_;  // of each label
  std::string version_;
};

}  // namespace makar
