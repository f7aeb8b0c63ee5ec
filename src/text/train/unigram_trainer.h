// Unigram training (Kudo, 2018): a large seed vocabulary of repeated substrings, expectation maximisation
// over all segmentations, and pruning of the pieces whose removal increases the loss least, with the steps
// and constants of the Hugging Face trainer (which follows SentencePiece). Sums run over fixed chunks of
// words, so the result does not depend on the number of threads.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "text/train/word_table.h"

namespace makar {

struct UnigramSettings {
  size_t vocab_size = 8'000;
  std::vector<std::string> special_tokens;
  std::string unk_token = "<unk>";  // "" for none
  std::vector<char32_t> initial_alphabet;
  size_t max_piece_length = 16;  // in characters
  size_t seed_size = 1'000'000;
  double shrinking_factor = 0.75;
  int sub_iterations = 2;
};

struct TrainedUnigram {
  std::vector<std::pair<std::string, double>> pieces;  // by id, with log-probabilities; special tokens first
  std::optional<size_t> unk_id;
  double loss = 0;  // mean negative log-likelihood per word, after the last step
};

Result<TrainedUnigram> train_unigram(const std::vector<WordCount>& words, const UnigramSettings& settings,
                                     ThreadPool& pool,
                                     const std::function<void(size_t, size_t, double)>& progress = {});

}  // namespace makar
