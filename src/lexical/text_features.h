// Texts as sparse TF-IDF vectors of word n-grams.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "lexical/corpus.h"
#include "lexical/numbered_words.h"

namespace makar {

using SparseVector = std::vector<std::pair<uint32_t, float>>;  // by ascending feature

struct FeatureOptions {
  int64_t ngrams = 2;     // of up to this many words
  int64_t min_count = 1;  // features that occur in fewer texts are dropped
  bool tf_idf = true;     // false: counts
  bool sublinear = true;  // 1 + log(count)
};

// tf-idf with smoothed idf, ln((1 + texts) / (1 + texts with the feature)) + 1, scaled to length 1, as
// scikit-learn's TfidfVectorizer. Unlike there, punctuation marks are words too. Words are lower case.
class TextFeatures {
 public:
  static TextFeatures learn(const std::vector<std::string>& texts, const FeatureOptions& options);
  SparseVector vector(std::string_view text) const;
  size_t size() const { return names_.size(); }
  const NumberedWords& names() const { return names_; }
  // The same features with counts instead of weights.
  SparseVector counts(std::string_view text) const;

  Json json() const;
  static Result<TextFeatures> from_json(const Json& json, const std::string& place);

 private:
  FeatureOptions options_;
  NumberedWords names_;
  std::vector<float> idf_;
};

}  // namespace makar
