// Converts a model to the tensors and metadata of a GGUF file.
#pragma once
#include <vector>

#include "formats/gguf_writer.h"
#include "models/load.h"

namespace makar {

// The tensors under GGUF's names, each computed when it is written, in the type of the model. Weights that
// GGUF has no name for (BERT's pooler) are omitted.
Result<std::vector<GgufSource>> gguf_sources(const LoadedModel& loaded);

// Whether a tensor may be stored in fewer than 32 bits: matrices, except routers, positions and token types.
bool may_be_quantized(const GgufSource& tensor);

}  // namespace makar
