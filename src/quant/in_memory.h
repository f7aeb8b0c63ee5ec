// A loaded model's blocks in fewer bits, in memory: the frozen base of an adapter that is trained beside it
// (QLoRA, Dettmers et al., 2023).
#pragma once
#include <string>

#include "models/model.h"

namespace makar {

// The linear layers of the blocks become `type` ("q8_0", "q4_k", ... as GGUF names them), one at a time;
// rows that are no whole blocks of it get the nearest type that fits. Tables, heads, routers and what is of a
// block type already stay as they are.
Status quantize_in_memory(Model& model, const std::string& type, ThreadPool& pool);

}  // namespace makar
