// Word vectors and queries on them: neighbours, analogies, similarity.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "lexical/numbered_words.h"
#include "lexical/subword_vectors.h"

namespace makar {

struct WordVectors {
  NumberedWords words;
  size_t width = 0;
  RowMatrix rows;                                            // [words, padded width]
  std::shared_ptr<const SubwordVectors> subwords = nullptr;  // for words outside the vocabulary
};

// The vector of a word [width]. For a word outside the vocabulary, the mean of its character n-grams, or
// nullopt if it has none.
std::optional<std::vector<float>> vector_of(const WordVectors& vectors, const std::string& word);

struct Neighbor {
  uint32_t word;
  double similarity;
};

// The word vectors scaled to unit norm, for cosines. Vectors of its functions are [padded width], unlike
// those of vector_of().
class VectorIndex {
 public:
  explicit VectorIndex(const WordVectors& vectors);
  // The `count` words most similar to a vector, without `excluded`; ties in the order of the vocabulary.
  // Searches the first `search_limit` words of the vocabulary, or all if it is 0.
  std::vector<Neighbor> nearest(const std::vector<float>& vector, size_t count,
                                const std::vector<uint32_t>& excluded, size_t search_limit = 0) const;
  std::vector<float> unit(uint32_t word) const;
  // The unit vector of a word outside the vocabulary, from its character n-grams; nullopt if there are none.
  std::optional<std::vector<float>> unit_by_ngrams(const std::string& word) const;
  double cosine(uint32_t a, uint32_t b) const;
  // b - a + c of unit vectors (Mikolov et al., 2013): a is to b as c is to ?
  std::vector<Neighbor> analogy(uint32_t a, uint32_t b, uint32_t c, size_t count,
                                size_t search_limit = 0) const;
  std::vector<Neighbor> analogy(const std::vector<float>& a, const std::vector<float>& b,
                                const std::vector<float>& c, size_t count,
                                const std::vector<uint32_t>& excluded, size_t search_limit = 0) const;
  const WordVectors& vectors() const { return vectors_; }

 private:
  const WordVectors& vectors_;
  RowMatrix units_;
};

// The score of a file with human ratings of pairs of words: "word word rating" per line, separated by blanks,
// tabs or commas.
struct SimilarityScore {
  double spearman = 0;
  size_t pairs = 0, unknown = 0;  // pairs with an unknown word are left out
  size_t by_ngrams = 0;           // pairs with a word whose vector comes from its character n-grams
};
Result<SimilarityScore> score_similarity(const VectorIndex& index, const std::string& path);

// The score of one section of questions-words.txt, which has ": section" lines and lines of four words.
struct AnalogyScore {
  std::string section;
  size_t questions = 0, correct = 0, unknown = 0;
  double accuracy() const {
    return questions == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(questions);
  }
};
// Answers are searched in the first `search_limit` words, as word2vec's compute-accuracy. The last entry is
// the total.
Result<std::vector<AnalogyScore>> score_analogies(const VectorIndex& index, const std::string& path,
                                                  size_t search_limit);

}  // namespace makar
