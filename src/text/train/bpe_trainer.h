// BPE training: repeatedly merges the most frequent pair of adjacent symbols (Sennrich et al., 2016).
// Vocabulary and merges equal those of the Hugging Face trainer: special tokens first, then the alphabet by
// code point, then merges by count; of equal counts, the smaller pair of ids.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/train/word_table.h"

namespace makar {

struct BpeSettings {
  size_t vocab_size = 30'000;
  uint64_t min_frequency = 0;
  std::vector<std::string> special_tokens;  // the first ids
  std::vector<std::string> initial_tokens;  // more tokens, in this order, before the alphabet of the words
  std::vector<char32_t> initial_alphabet;   // kept regardless of their counts
  std::optional<size_t> limit_alphabet;  // only the most frequent characters; others are removed from words
  std::string continuing_prefix, end_suffix;  // "##", "</w>"
  size_t max_token_length = 0;                // in characters; 0: no limit
  bool bytes = false;                         // words are bytes, stored in the byte alphabet
  // The textbook form of WordPiece: the pair with the largest freq(pair) / (freq(a) freq(b)) instead of
  // freq(pair).
  bool score_by_likelihood = false;
};

struct TrainedBpe {
  std::vector<std::string> tokens;  // by id
  std::vector<std::pair<uint32_t, uint32_t>> merges;
};

// `progress` is called with the current number of tokens and the target.
Result<TrainedBpe> train_bpe(const std::vector<WordCount>& words, const BpeSettings& settings,
                             const std::function<void(size_t, size_t)>& progress = {});

}  // namespace makar
