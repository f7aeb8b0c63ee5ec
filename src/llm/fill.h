// The words a masked language model expects in a gap.
#pragma once
#include "infer/engine.h"
#include "infer/logprobs.h"
#include "llm/language_model.h"

namespace makar {

struct Gap {
  int64_t position = 0;  // among the tokens
  std::vector<TokenLogprob> top;
};

// One Gap for each mask token in `text`, in order. Errors: no mask in the text, a model without a masked
// head.
Result<std::vector<Gap>> fill(Engine& engine, const LanguageModel& language, const std::string& text,
                              int64_t top);

// "[MASK]" or "<mask>"; empty where the tokenizer has none.
std::string mask_token(const LanguageModel& language);

}  // namespace makar
