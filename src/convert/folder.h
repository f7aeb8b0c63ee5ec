// Writes any model as a Hugging Face folder: weights, config.json, tokenizer and chat template.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "models/source.h"

namespace makar {

// `type`: f32, f16 or bf16 for the matrices; without one, the source's types are kept and block types become
// f16. Returns warnings.
Result<std::vector<std::string>> write_folder(const ModelSource& source, const std::string& folder,
                                              std::optional<DType> type, ThreadPool& pool);

}  // namespace makar
