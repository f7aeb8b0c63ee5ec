// Options of word2vec.
#pragma once
#include <span>
#include <string>

#include "base/option_table.h"

namespace makar {

struct Word2VecOptions {
  std::string model = "skipgram", loss = "ns";
  int64_t width = 100, window = 5, negatives = 5, epochs = 5;
  double learning_rate = 0.05, subsample = 1e-3;
  int64_t min_ngram = 3, max_ngram = 0;  // characters; max 0: words only
  int64_t buckets = 2'000'000;           // rows of character n-grams, by hash
  int64_t seed = 1;
  bool fast = false;
};
std::span<const TableOption<Word2VecOptions>> word2vec_options();
Status check(const Word2VecOptions& options);

}  // namespace makar
