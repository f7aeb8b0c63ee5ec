// BERTScore (Zhang et al., 2020): greedy matching of token vectors by cosine. The vectors come from any
// encoder.
#pragma once
#include <span>

#include "metrics/evaluation.h"

namespace makar {

// Tokens of one text. Special tokens have the weight 0: they score nothing, but may be the match of another
// token.
struct TokenVectors {
  size_t width = 0;
  std::vector<float> values;    // [tokens, width]
  std::vector<double> weights;  // of each token: 1, or its inverse document frequency
  size_t tokens() const { return weights.size(); }
};
// Scales every vector to length 1.
void normalize(TokenVectors& vectors);

struct BertScore {
  double precision = 0, recall = 0, f1 = 0;
};
// `baseline`: the scores of unrelated texts; a score x becomes (x - baseline) / (1 - baseline). A text
// without weighted tokens scores 0.
BertScore bert_score(const TokenVectors& hypothesis, const TokenVectors& reference,
                     const BertScore& baseline = {});

// log((N + 1) / (df + 1)) of every token id of N reference texts; an id without an entry has log(N + 1).
class InverseFrequencies {
 public:
  explicit InverseFrequencies(const std::vector<std::vector<int64_t>>& references);
  double operator()(int64_t token) const;

 private:
  std::unordered_map<int64_t, double> values_;
  double unseen_ = 0;
};

// The mean of the pairs; the score is the F1.
Evaluation evaluate_bert_scores(const std::vector<BertScore>& pairs, std::string signature);

}  // namespace makar
