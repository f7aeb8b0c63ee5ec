// Sentences drawn from an n-gram model.
#pragma once
#include <string>
#include <vector>

#include "lexical/ngram_model.h"

namespace makar {

struct NgramSampling {
  double temperature = 1;  // 0: the most likely word
  int64_t top_k = 0;       // 0: all words
  int64_t max_words = 100;
  uint64_t seed = 0;
};

class NgramGenerator {
 public:
  explicit NgramGenerator(const NgramModel& model) : model_(model), index_(model.by_prefix()) {}
  // The words after `prompt`, until </s> or the limit. The draws depend only on the seed and `number`, the
  // index of the sentence.
  std::vector<std::string> generate(const std::vector<std::string_view>& prompt,
                                    const NgramSampling& sampling, uint64_t number);

 private:
  uint32_t draw(const NgramModel::State& state, const NgramSampling& sampling, double uniform);
  const NgramModel& model_;
  std::vector<NgramModel::ByPrefix> index_;
  std::vector<double> probs_;
  std::vector<uint32_t> order_;
};

}  // namespace makar
