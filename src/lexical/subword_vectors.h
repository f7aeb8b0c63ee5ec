// Vectors of words from their character n-grams (Bojanowski et al., 2017), which also exist for words outside
// the vocabulary.
#pragma once
#include <string>
#include <vector>

#include "lexical/row_matrix.h"
#include "lexical/word2vec_options.h"

namespace makar {

struct SubwordVectors {
  Word2VecOptions options;       // of the training; look-ups use only the n-gram lengths and buckets
  std::vector<uint64_t> counts;  // of the words
  uint64_t tokens = 0;           // of the text
  int64_t min_count = 1;
  RowMatrix rows;    // of the words, then of the buckets
  RowMatrix output;  // of the words, as context; may be empty
};

// Appends the row numbers of the character n-grams of "<word>", by fastText's hash. Rows of n-grams follow
// the rows of the `words` words of the vocabulary. "</s>" has no n-grams.
void add_ngram_rows(const std::string& word, size_t words, const Word2VecOptions& options,
                    std::vector<uint32_t>& rows);

// Writes the mean of rows to `out`, which must be all zeros.
void add_mean(const RowMatrix& matrix, const std::vector<uint32_t>& rows, float* out);

}  // namespace makar
