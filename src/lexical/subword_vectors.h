// Vectors of words from their character n-grams (Bojanowski et al., 2017): words out of the vocabulary have
// one too.
#pragma once
#include <string>
#include <vector>

#include "lexical/row_matrix.h"
#include "lexical/word2vec_options.h"

namespace makar {

struct SubwordVectors {
  Word2VecOptions options;       // those of the training; the lengths of n-grams and the buckets count
  std::vector<uint64_t> counts;  // of the words
  uint64_t tokens = 0;           // of the text
  int64_t min_count = 1;
  RowMatrix rows;    // of the words, then of the buckets
  RowMatrix output;  // of the words, as context; may be empty
};

// Adds the rows of a word's character n-grams with '<' and '>' around it, by fastText's hash, after those of
// `words` words. "</s>" has none.
void add_ngram_rows(const std::string& word, size_t words, const Word2VecOptions& options,
                    std::vector<uint32_t>& rows);

// Writes the mean of rows to `out`, which is 0 before.
void add_mean(const RowMatrix& matrix, const std::vector<uint32_t>& rows, float* out);

}  // namespace makar
