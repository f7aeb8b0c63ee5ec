// Converts tokenizer and chat template between a Hugging Face folder and GGUF metadata.
#pragma once
#include <string>

#include "formats/gguf_value.h"
#include "models/spec.h"

namespace makar {

// Sets tokenizer.ggml.* and tokenizer.chat_template from a folder (or tokenizer file), for a vocabulary of
// `spec.vocab`. False when the folder has no tokenizer.
Result<bool> put_tokenizer(const std::string& folder, const ModelSpec& spec, GgufFields& fields);

// Writes tokenizer.json, and tokenizer_config.json with the chat template. False when the metadata has no
// vocabulary.
Result<bool> write_tokenizer(const GgufFields& fields, const std::string& folder);

}  // namespace makar
