// Converts a model to the metadata and tensors of a GGUF file, as its family's `gguf` section states.
#pragma once
#include <vector>

#include "formats/gguf_writer.h"
#include "models/load.h"

namespace makar {

// "general.architecture" and the keys of the architecture. kUnsupported when GGUF cannot represent the model.
Result<GgufFields> gguf_fields(const LoadedModel& loaded);

// The tensors under GGUF's names, each computed when it is written, in the type of the model. Weights that
// GGUF has no name for (BERT's pooler) are omitted.
Result<std::vector<GgufTensorSource>> gguf_sources(const LoadedModel& loaded);

}  // namespace makar
