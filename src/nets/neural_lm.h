// A feed-forward language model (Bengio et al., 2003): the vectors of the previous words, concatenated, a
// hidden layer, a softmax over the words.
#pragma once
#include "nets/batches.h"
#include "nets/mlp.h"
#include "nets/word_vocabulary.h"

namespace makar {

struct NeuralLmOptions {
  int64_t context = 4, width = 64, hidden = 128;
  int64_t min_count = 2, max_words = 20'000;
  NetTraining training = {.epochs = 5, .batch = 256, .learning_rate = 2e-3};
};

struct LmScore {
  double perplexity = 0;  // per word, with the end of each sentence
  int64_t words = 0, unknown = 0;
};

class NeuralLm {
 public:
  NeuralLm() = default;
  // Each text is a sentence.
  static Result<NeuralLm> train(const std::vector<std::string>& sentences, const NeuralLmOptions& options,
                                Device& device, const std::function<void(const EpochResult&)>& each);
  LmScore score(const std::vector<std::string>& sentences, Device& device);
  // Words until the end of the sentence; the draws depend only on (seed, number).
  std::string generate(uint64_t seed, uint64_t number, int64_t max_words, Device& device);
  int64_t parameters() const { return set_.count(); }
  int64_t words() const { return vocabulary_.size(); }
  Status save(const std::string& folder) const;
  static Result<NeuralLm> load(const std::string& folder);

 private:
  void declare();
  // Hidden states [rows, hidden] of contexts, `context_` word ids per row. The padding word precedes the
  // first word; as a target it is the end of a sentence.
  Tensor hidden_rows(Context& ctx, const std::vector<int64_t>& contexts);
  int64_t context_ = 4, width_ = 64, hidden_ = 128;
  WordVocabulary vocabulary_;
  ParameterSet set_;
  Parameter* table_ = nullptr;
  Linear hidden_layer_, output_;
};

}  // namespace makar
