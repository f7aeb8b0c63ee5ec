// A hidden Markov model of tagged words: p(tag | previous tag) p(word | tag), add-k smoothed. Unknown words
// get the probabilities of rare training words with the same ending (Brants, 2000). Viterbi finds the best
// tags, forward-backward the probability of each tag.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "data/record_reader.h"
#include "lexical/numbered_words.h"

namespace makar {

struct TaggedSentences {
  std::vector<std::vector<std::string>> words, tags;
};
// Records {"tokens", "tags"}: JSONL, CoNLL, CoNLL-U.
Result<TaggedSentences> read_tagged(const std::vector<DataPath>& paths);

class HmmTagger {
 public:
  static Result<HmmTagger> train(const TaggedSentences& data, double smoothing = 0.1);
  // A tagger with the given natural logarithms of probabilities. transitions[t][u]: from tag t to u, and in
  // the last column to the end of the sentence; emissions[t][w].
  static HmmTagger from_log_probs(std::vector<std::string> tags, NumberedWords words,
                                  std::vector<double> start, std::vector<std::vector<double>> transitions,
                                  std::vector<std::vector<double>> emissions);

  std::vector<std::string> tag(const std::vector<std::string>& words, double* log_prob = nullptr) const;
  // The probability of each tag, [word][tag], and the logarithm of the sentence's probability.
  std::vector<std::vector<double>> posteriors(const std::vector<std::string>& words,
                                              double* log_prob = nullptr) const;
  const std::vector<std::string>& tags() const { return tags_; }

  Json json() const;
  static Result<HmmTagger> from_json(const Json& json, const std::string& place);

 private:
  // log p(word | tag) for all tags.
  std::vector<double> emission(const std::string& word) const;
  std::vector<std::string> tags_;
  NumberedWords words_, endings_;
  std::vector<double> start_;
  std::vector<std::vector<double>> transitions_;  // [tag][next tag, then the end]
  std::vector<std::vector<double>> emissions_;    // [tag][word]
  std::vector<std::vector<double>> by_ending_;    // [ending][tag]
};

}  // namespace makar
