// Text to index terms: words in lower case, without stop words, stemmed.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "metrics/stem.h"

namespace makar {

struct AnalyzerOptions {
  std::string language = "english";  // of the stemmer and the stop words; "none": neither
  bool stem = true, stop = true;
  bool operator==(const AnalyzerOptions&) const = default;
};

// A word is a maximal run of letters, marks, digits and connectors; an apostrophe between letters belongs to
// it, and a possessive 's at its end is dropped. Not thread-safe.
class Analyzer {
 public:
  static constexpr size_t kMaxTermBytes = 200;  // longer words are truncated

  // Fails for a language that libstemmer does not have.
  static Result<Analyzer> open(const AnalyzerOptions& options);
  const AnalyzerOptions& options() const { return options_; }

  // The terms in the order of the text, with repetitions.
  std::vector<std::string> operator()(std::string_view text) const;

 private:
  explicit Analyzer(AnalyzerOptions options) : options_(std::move(options)) {}
  const std::string& term(const std::string& word) const;  // "" for a stop word

  AnalyzerOptions options_;
  std::optional<Stemmer> stemmer_;
  std::unordered_set<std::string> stop_;
  mutable std::unordered_map<std::string, std::string> terms_;  // a cache, by word
};

// How often each word of the vocabulary occurs in the terms.
std::vector<int64_t> bag_of_words(const std::vector<std::string>& terms,
                                  const std::vector<std::string>& vocabulary);

}  // namespace makar
