// GloVe (Pennington et al., 2014): vectors whose products approximate the logarithms of co-occurrence counts,
// by weighted least squares with AdaGrad. Rounds and the fast mode as in word2vec.h.
#pragma once
#include "lexical/cooccurrence.h"
#include "lexical/word2vec.h"

namespace makar {

struct GloveOptions {
  int64_t width = 100, epochs = 15, seed = 1;
  double learning_rate = 0.05, x_max = 100, alpha = 0.75;
  bool fast = false;
};

// Vectors are the sums of word and context vectors.
Result<WordVectors> train_glove(const NumberedWords& words, std::span<const Cooccurrence> counts,
                                const GloveOptions& options, ThreadPool& pool, const ShowProgress& show);

}  // namespace makar
