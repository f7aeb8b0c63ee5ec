// A convolutional network on words (Kim, 2014): filters over windows of words, the maximum of each over the
// text, a linear classifier. Without windows, the classifier reads the mean of the words' vectors, as
// fastText does (Joulin et al., 2016).
#pragma once
#include "lexical/text_classifier.h"
#include "lexical/word_vectors.h"
#include "nets/batches.h"
#include "nets/mlp.h"
#include "nets/word_vocabulary.h"

namespace makar {

struct TextCnnOptions {
  int64_t width = 64, filters = 64;          // width of a word's vector; filters per window size
  std::vector<int64_t> windows = {3, 4, 5};  // empty: the mean of the vectors
  double dropout = 0.5;
  int64_t min_count = 1, max_words = 100'000;
  int64_t max_text_words = 400;  // a text is cut to this many words
  // Initial vectors; words outside their vocabulary start from character n-grams if there are any.
  const WordVectors* vectors = nullptr;
  NetTraining training = {.epochs = 5, .batch = 50, .learning_rate = 1e-3};
};

class TextCnn {
 public:
  TextCnn() = default;
  static Result<TextCnn> train(const TextsWithLabels& data, const TextCnnOptions& options, Device& device,
                               const std::function<void(const EpochResult&)>& each);
  // Probabilities of the labels, per text.
  std::vector<std::vector<double>> classify(const std::vector<std::string>& texts, Device& device);
  const std::vector<std::string>& labels() const { return labels_; }
  int64_t parameters() const { return set_.count(); }
  double accuracy(const TextsWithLabels& data, Device& device);

  Status save(const std::string& folder) const;
  static Result<TextCnn> load(const std::string& folder);

 private:
  void declare();
  // Logits [texts, labels] of texts as ids.
  Tensor forward(Context& ctx, const std::vector<std::vector<int64_t>>& texts);
  std::vector<int64_t> ids_of(const std::string& text) const;

  WordVocabulary words_;
  std::vector<std::string> labels_;
  std::vector<int64_t> windows_;
  int64_t width_ = 0, filters_ = 0, max_text_words_ = 400;
  float dropout_ = 0;
  ParameterSet set_;
  Parameter* table_ = nullptr;
  std::vector<Linear> convolutions_;
  Linear classifier_;
};

}  // namespace makar
