// Quantizes the blocks of a loaded model in memory: the frozen base of a trained adapter (QLoRA, Dettmers et
// al., 2023).
#pragma once
#include <string>

#include "base/thread_pool.h"
#include "models/model.h"

namespace makar {

// Encodes the linear layers of the blocks as `type` ("q8_0", "q4_k", ... in GGUF's names), one at a time.
// Rows that are not a whole number of its blocks get the nearest type that fits. Embeddings, heads, routers
// and tensors that have a block type already do not change.
Status quantize_in_memory(Model& model, const std::string& type, ThreadPool& pool);

}  // namespace makar
