// Fill in the middle: the text before and after the gap, combined with the control tokens of code models.
#pragma once
#include <string>
#include <vector>

#include "llm/language_model.h"

namespace makar {

// The prompt whose continuation fills the gap. kUnsupported: the tokenizer has no infill tokens.
Result<std::vector<int64_t>> encode_infill(const LanguageModel& language, const std::string& before,
                                           const std::string& after, WorkBudget* work = nullptr);

}  // namespace makar
