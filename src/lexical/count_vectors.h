// Vectors from counts: bag of words, TF-IDF, positive pointwise mutual information, latent semantic analysis.
#pragma once
#include <map>
#include <span>

#include "lexical/cooccurrence.h"
#include "lexical/sparse_svd.h"
#include "lexical/word_vectors.h"

namespace makar {

// How often each word of the vocabulary occurs in a text; unknown words are ignored.
std::vector<int64_t> bag_of_words(const NumberedWords& vocabulary, std::span<const std::string_view> words);

// tf: share of the text's words; idf: natural logarithm of documents / documents with the word.
double tf_idf(double count, double words, double documents, double documents_with_word);

// Entries max(0, log(p(w, c) / (p(w) p(c)))), with context counts raised to `smoothing` (Levy et al., 2015).
SparseMatrix positive_pmi(size_t words, std::span<const Cooccurrence> counts, double smoothing);

// Words by documents, with tf-idf; a line is a document.
SparseMatrix word_documents(const WordStream& text);

// Vectors u_k s_k^power of the largest `width` singular values.
WordVectors svd_vectors(const NumberedWords& words, const SparseMatrix& matrix, size_t width, double power,
                        uint64_t seed, ThreadPool& pool);

}  // namespace makar
