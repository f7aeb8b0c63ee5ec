// Filling in the middle: what stands before and after a gap, between the control tokens that code models
// know.
#pragma once
#include <string>
#include <vector>

#include "llm/language_model.h"

namespace makar {

// The prompt whose continuation fills the gap. kUnsupported: the tokenizer has no tokens for it.
Result<std::vector<int64_t>> encode_infill(const LanguageModel& language, const std::string& before,
                                           const std::string& after);

}  // namespace makar
