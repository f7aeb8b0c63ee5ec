// A learned metric like BLEURT (Sellam et al., 2020): a linear regression on vectors of a frozen encoder,
// which is fitted to automatic metrics of synthetic pairs and then to ratings.
#pragma once
#include "metrics/bert_score.h"

namespace makar {

// A sentence and a corrupted copy of it with the automatic metrics of the copy.
struct SyntheticPair {
  std::string hypothesis, reference;
  std::vector<double> signals;  // BLEU, ROUGE-L and chrF of the copy, 0 to 1
};
// `copies` corrupted copies of each sentence of 2 to 200 words. A copy has one kind of corruption: words are
// dropped, swapped, doubled, replaced by words of any sentence, or cut off at the end, with up to 0.6 changes
// per word, rounded up. The same seed gives the same pairs.
Result<std::vector<SyntheticPair>> synthetic_pairs(const std::vector<std::string>& sentences, int64_t copies,
                                                   uint64_t seed);

// The features of a pair: precision, recall and F1 of BERTScore, the cosine of the mean vectors, the
// logarithm of the ratio of tokens, and the elementwise absolute difference and product of the mean vectors.
std::vector<double> pair_features(const TokenVectors& hypothesis, const TokenVectors& reference);

using FeatureRows = std::vector<std::vector<double>>;

class LearnedHead {
 public:
  // Fits the mean of the signals. Fails on fewer than 10 pairs.
  static Result<LearnedHead> pretrain(const FeatureRows& features,
                                      const std::vector<std::vector<double>>& signals);
  // Fits ratings: rating = a * score + b + a linear function of the features under a ridge penalty. Of four
  // penalties, it chooses the one that best predicts every fifth rating, which is held out. Returns the
  // correlation with the held-out ratings; the final fit uses them too.
  struct Fit {
    double pearson = 0, spearman = 0, penalty = 0;
  };
  Result<Fit> tune(const FeatureRows& features, const std::vector<double>& ratings);
  double score(const std::vector<double>& features) const;
  size_t width() const { return weights_.size(); }

  std::string encoder;  // family and layer that the vectors come from
  Json json() const;
  static Result<LearnedHead> from_json(const Json& json, const std::string& place);
  // A hash of the whole head, for the signature.
  std::string version() const;

 private:
  std::vector<double> mean_, scale_;  // of each feature
  std::vector<double> weights_;
  double bias_ = 0;
};

// The x with (A + penalty I) x = b, for a symmetric positive definite A [n, n], by Cholesky's decomposition.
std::vector<double> solve_ridge(std::vector<double> a, std::vector<double> b, double penalty);

}  // namespace makar
