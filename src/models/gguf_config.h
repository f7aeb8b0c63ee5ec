// Reads the metadata of a GGUF file as the config.json of its family.
#pragma once
#include "formats/config.h"
#include "formats/gguf.h"
#include "models/family.h"

namespace makar {

// Fields that GGUF does not store (vocabulary size, tied output) follow from the tensors, as the family's
// page states.
Result<Config> gguf_config(const Gguf& file);

}  // namespace makar
