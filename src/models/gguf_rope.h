// Scaled rotary positions in GGUF: keys for linear and yarn; tensors of factors for Llama 3 (rope_freqs) and
// longrope.
#pragma once
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "formats/safetensors_writer.h"
#include "models/spec.h"

namespace makar {

// True for the names of tensors with rotary factors, which gguf_config() reads into the config.
bool is_rope_tensor(const std::string& name);
// Sets "rope_scaling" of the config from the keys of `architecture` and from the tensors of factors.
Status put_gguf_rope(const Gguf& file, const std::string& architecture, Json& config);
// Sets the keys for a spec's scaling; kUnsupported when GGUF cannot represent it.
Status put_rope_fields(const ModelSpec& spec, const std::string& architecture, GgufFields& fields);
// The tensors of factors that the spec needs.
std::vector<NamedTensor> gguf_rope_tensors(const ModelSpec& spec);

}  // namespace makar
