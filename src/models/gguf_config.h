// Converts between the metadata of a GGUF file and the config.json that a family reads.
#pragma once
#include "formats/config.h"
#include "formats/gguf.h"
#include "models/gguf_architecture.h"

namespace makar {

// Fields that GGUF does not store (vocabulary size, tied output) are derived from tensor shapes.
Result<Config> gguf_config(const Gguf& file);

// "general.architecture" and the keys of the architecture. kUnsupported when GGUF cannot represent the model.
Result<GgufFields> gguf_fields(const ModelSpec& spec);

}  // namespace makar
