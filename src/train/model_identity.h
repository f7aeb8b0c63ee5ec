// A hash of a model's files, for the identity of a run that uses the model besides the trained one (a
// reference, a reward model, a teacher): a resumed run must meet the same weights.
#pragma once
#include <string>

#include "base/error.h"

namespace makar {

// `path`: a GGUF file or a folder; of a folder, the files with weights and the configuration count. Reads all
// bytes, at about the speed of memory or disk.
Result<std::string> model_identity(const std::string& path);

}  // namespace makar
