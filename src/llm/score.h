// What is scored when a completion stands after a prompt: the tokens of both, and where the completion
// begins.
#pragma once
#include "infer/engine.h"
#include "llm/language_model.h"

namespace makar {

struct ScoredText {
  std::vector<int64_t> tokens;
  int64_t from = 1;  // the first token that is scored
};

// Tokens of the prompt alone, then those of both together, split where the texts meet: the completion's
// tokens are the ones after as many as the prompt has. Errors: nothing to score, more than the context holds.
Result<ScoredText> plan_score(const LanguageModel& language, const ContextOptions& context,
                              const std::string& prompt, const std::string& completion);

}  // namespace makar
