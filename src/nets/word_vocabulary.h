// The vocabulary of a network with a table of word vectors: words to indices.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "lexical/corpus.h"

namespace makar {

class WordVocabulary {
 public:
  static constexpr int64_t kPad = 0, kUnknown = 1, kFirst = 2;
  // The `max_words` most frequent words of texts, in lower case, without words that occur fewer than
  // `min_count` times; ties in alphabetical order.
  static WordVocabulary count(const std::vector<std::string>& texts, int64_t min_count, size_t max_words);
  static Result<WordVocabulary> from_json(const Json& json, const std::string& place);
  Json json() const { return words_; }

  std::vector<int64_t> ids(std::string_view text) const;
  int64_t size() const { return static_cast<int64_t>(words_.size()) + kFirst; }
  const std::string& word(int64_t id) const { return words_.at(static_cast<size_t>(id - kFirst)); }

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, int64_t> indices_;
};

}  // namespace makar
