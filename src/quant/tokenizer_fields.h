// Tokenizer and chat template: from a Hugging Face folder into the metadata of GGUF, and back.
#pragma once
#include <string>

#include "formats/gguf_value.h"
#include "models/spec.h"

namespace makar {

// tokenizer.ggml.* and tokenizer.chat_template of a folder (or of a tokenizer file), for a vocabulary of
// `spec.vocab`. False when the folder holds no tokenizer.
Result<bool> put_tokenizer(const std::string& folder, const ModelSpec& spec, GgufFields& fields);

// tokenizer.json, tokenizer_config.json and chat_template.jinja. False when the metadata holds no vocabulary.
Result<bool> write_tokenizer(const GgufFields& fields, const std::string& folder);

}  // namespace makar
