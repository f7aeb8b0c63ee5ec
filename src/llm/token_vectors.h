// A vector for every token of a text from any layer of a model, for BERTScore.
#pragma once
#include "kernels/device.h"
#include "llm/language_model.h"
#include "metrics/bert_score.h"

namespace makar {

struct TokenizedText {
  std::vector<int64_t> ids;
  std::vector<bool> special;  // added by the tokenizer: [CLS], [SEP]
};
// Truncated to the model's limit and to `max` tokens.
Result<TokenizedText> tokenize_for_vectors(const LanguageModel& language, const std::string& text,
                                           size_t max = SIZE_MAX);

// Layer 0 is the input of the first block, layer n the output of block n; -1: the last layer. Vectors of
// length 1; the weight is 1 for plain tokens and 0 for special ones.
class TokenEncoder {
 public:
  // Fails if the model reads no text or has no such layer.
  static Result<TokenEncoder> make(const LanguageModel& language, Device& device, int64_t layer);
  TokenVectors operator()(const TokenizedText& text) const;
  int64_t layer() const { return layer_; }

 private:
  TokenEncoder(const LanguageModel& language, Device& device, int64_t layer)
      : language_(language), device_(device), layer_(layer) {}
  const LanguageModel& language_;
  Device& device_;
  int64_t layer_;
};

}  // namespace makar
