// word2vec (Mikolov et al., 2013): skip-gram and CBOW, with negative sampling, hierarchical softmax or the
// full softmax; frequent words are subsampled; a word's vector may include those of its character
// n-grams (Bojanowski et al., 2017).
//
// The default mode gives the same bits for any number of threads: the chunks of text of a round are learned
// from the same state, each in copies of the rows it uses, and their changes are added, scaled by share_of()
// (row_matrix.h). The fast mode updates shared rows without locks, as the original does; with several
// threads, its bits differ from run to run.
#pragma once
#include <functional>
#include <string>

#include "base/thread_pool.h"
#include "lexical/word2vec_options.h"
#include "lexical/word_stream.h"
#include "lexical/word_vectors.h"

namespace makar {

struct VectorProgress {
  uint64_t done = 0, total = 0;  // words (word2vec) or entries (GloVe), over all epochs
  double loss = 0;               // mean since the last call
  double learning_rate = 0;
};
using ShowProgress = std::function<void(const VectorProgress&)>;

Result<WordVectors> train_word2vec(const WordStream& text, const Word2VecOptions& options, ThreadPool& pool,
                                   const ShowProgress& show);

// Rows of a word: its own row, and the rows of the character n-grams of "<word>", by fastText's hash.
std::vector<uint32_t> word_rows(const std::string& word, uint32_t word_id, size_t words,
                                const Word2VecOptions& options);

// Huffman codes for hierarchical softmax: the inner nodes from the root, and whether the path turns right at
// each.
struct HuffmanPath {
  std::vector<uint32_t> nodes;
  std::vector<bool> right;
};
std::vector<HuffmanPath> huffman_paths(const std::vector<uint64_t>& counts);

}  // namespace makar
