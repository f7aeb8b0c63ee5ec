// Scaled rotary positions in GGUF: keys for linear and yarn; a tensor of factors, rope_freqs, for Llama 3.
#pragma once
#include <optional>

#include "formats/gguf.h"
#include "models/spec.h"

namespace makar {

// Sets "rope_scaling" of the config from the keys of `architecture` and from rope_freqs.weight.
Status put_gguf_rope(const Gguf& file, const std::string& architecture, Json& config);
// Sets the keys for a spec's scaling; kUnsupported for dynamic scaling.
Status put_rope_fields(const ModelSpec& spec, const std::string& architecture, GgufFields& fields);
// The tensor rope_freqs.weight, if the spec needs it.
std::optional<Tensor> gguf_rope_factors(const ModelSpec& spec);

}  // namespace makar
