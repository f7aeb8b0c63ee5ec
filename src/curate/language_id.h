// The language of a text by its character n-grams of 1 to 4 characters: multinomial naive Bayes over hashed
// n-grams, trained on sample texts.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace makar {

class LanguageId {
 public:
  static constexpr size_t kBuckets = 1 << 14;
  struct Answer {
    std::string language;
    double probability;  // from a tenth of the log-likelihoods, because n-grams overlap
  };
  // Texts by language; at least two languages.
  static Result<LanguageId> train(const std::map<std::string, std::string>& samples);
  Answer detect(std::string_view text) const;  // the first 4,000 bytes decide
  const std::vector<std::string>& languages() const { return languages_; }

  Json json() const;
  static Result<LanguageId> from_json(const Json& json, const std::string& place);

 private:
  std::vector<std::string> languages_;
  std::vector<std::vector<float>> log_prob_;  // [language][bucket]
};

}  // namespace makar
