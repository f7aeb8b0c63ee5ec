// An n-gram language model with back-off, as an ARPA file stores it: for every n-gram the logarithm (base 10)
// of its probability and of the weight of the shorter context. p(w | h) is the probability of the n-gram
// h w if it is listed, otherwise backoff(h) p(w | h without its first word).
#pragma once
#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "lexical/ngram_table.h"
#include "lexical/numbered_words.h"

namespace makar {

constexpr int kMaxOrder = 10;
constexpr const char *kBeginSentence = "<s>", *kEndSentence = "</s>", *kUnknownWord = "<unk>";

// The n-grams of one length. A single word's number is its number in the word table.
struct NgramLevel {
  NgramTable table;
  std::vector<float> log_prob, log_backoff;
};

class NgramModel {
 public:
  // The last words, as n-grams of each length that the model has.
  struct State {
    std::array<uint32_t, kMaxOrder> ngrams;  // [i]: the last i + 1 words, or NgramTable::kNone
    int longest = 0;                         // contexts of more words are not in the model
  };
  struct WordScore {
    double log_prob;    // base 10
    int matched;        // length of the n-gram that was found
    bool unknown_word;  // the word is not in the vocabulary
  };

  // Level 1 must list every word of `words`, in its order. Fails without <s> and </s>; adds <unk> with
  // probability 0 if it is missing.
  static Result<NgramModel> make(NumberedWords words, std::vector<NgramLevel> levels,
                                 const std::string& place);

  int order() const { return static_cast<int>(levels_.size()); }
  const NumberedWords& words() const { return words_; }
  const NgramLevel& level(int length) const { return levels_[static_cast<size_t>(length - 1)]; }
  uint32_t begin() const { return begin_; }
  uint32_t end() const { return end_; }
  uint32_t unknown() const { return unknown_; }
  uint32_t id(std::string_view word) const { return words_.find(word).value_or(unknown_); }

  State start() const;  // after <s>
  WordScore step(State& state, uint32_t word) const;

  // The n-grams of one length, sorted by prefix: n-grams with prefix p are list[first[p]] to
  // list[first[p + 1] - 1]. by_prefix() returns one index per length; the index of length 1 is empty.
  struct ByPrefix {
    std::vector<uint32_t> first, list;
  };
  std::vector<ByPrefix> by_prefix() const;
  // The probability of every word after a state; <s> has probability 0. `index`: the result of by_prefix().
  void distribution(const State& state, const std::vector<ByPrefix>& index, std::vector<double>& out) const;

 private:
  NumberedWords words_;
  std::vector<NgramLevel> levels_;
  uint32_t begin_ = 0, end_ = 0, unknown_ = 0;
};

// Sums over sentences, each followed by </s>.
struct NgramScore {
  uint64_t sentences = 0, words = 0, unknown = 0;  // words without </s>; unknown ones are included
  double log_prob = 0, log_prob_unknown = 0;       // base 10; log_prob_unknown: only unknown words
  std::vector<uint64_t> matched;                   // words by the length of the n-gram found

  void add(const NgramScore& other);
  uint64_t tokens() const { return words + sentences; }
  double perplexity() const;        // of all tokens with </s>
  double known_perplexity() const;  // without unknown words
  double bits_per_token() const;
};
NgramScore score_sentence(const NgramModel& model, std::span<const std::string_view> words);

}  // namespace makar
