// A model as the tensors and metadata of a GGUF file.
#pragma once
#include <vector>

#include "formats/gguf_writer.h"
#include "models/load.h"

namespace makar {

// The tensors under GGUF's names, each made when it is written, in the type the model holds it in. Weights
// that GGUF has no place for (BERT's pooler) are left out.
Result<std::vector<GgufSource>> gguf_sources(const LoadedModel& loaded);

// Whether a tensor may be stored in fewer than 32 bits: matrices, but not routers, positions and token types.
bool may_be_narrow(const GgufSource& tensor);

}  // namespace makar
