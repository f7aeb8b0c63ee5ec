// The words that a masked language model predicts for a mask.
#pragma once
#include "infer/engine.h"
#include "infer/logprobs.h"
#include "llm/language_model.h"

namespace makar {

struct MaskPrediction {
  int64_t position = 0;  // token index
  std::vector<TokenLogprob> top;
};

// One MaskPrediction per mask token in `text`, in order. Fails if the text has no mask or the model has no
// masked-LM head.
Result<std::vector<MaskPrediction>> fill(Engine& engine, const LanguageModel& language,
                                         const std::string& text, int64_t top);

// "[MASK]" or "<mask>"; empty if the tokenizer has none.
std::string mask_token(const LanguageModel& language);

}  // namespace makar
