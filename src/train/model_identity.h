// A hash of a model's files, for the identity of a run that uses the model besides the trained one (a
// reference, a reward model, a teacher): a resumed run must meet the same weights. Also of single files that
// rewards depend on.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

// `path`: a file (of a split GGUF model with the other parts) or a folder; of a folder, the files that are
// read count: weights, configuration, tokenizer, chat template, generation_config.json. Reads all bytes, at
// about the speed of memory or disk; an error when `stop` returns true.
Result<std::string> model_identity(const std::string& path, const std::function<bool()>& stop = {});
// Adds these hashes to identity["files"], by path; empty paths are left out.
Status add_model_files(Json& identity, const std::vector<std::string>& paths);

}  // namespace makar
