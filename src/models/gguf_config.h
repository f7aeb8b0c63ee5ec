// The metadata of a GGUF file as the config.json that a family's page reads, and back.
#pragma once
#include "formats/config.h"
#include "formats/gguf.h"
#include "models/gguf_architecture.h"

namespace makar {

// Fields that GGUF keeps in the shapes of its tensors (size of the vocabulary, tied output) are taken from
// there.
Result<Config> gguf_config(const Gguf& file);

// "general.architecture" and the keys of the architecture. kUnsupported when the model has something that
// GGUF cannot say.
Result<GgufFields> gguf_fields(const ModelSpec& spec);

}  // namespace makar
