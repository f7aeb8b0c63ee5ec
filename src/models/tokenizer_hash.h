// Hashes of a model's tokenizer and chat template, kept beside the weights when a model is converted. Another
// tokenizer put beside them later is told at load.
#pragma once
#include <string>
#include <vector>

#include "models/source.h"

namespace makar {

// FNV-1a, 64 bits, as 16 hexadecimal digits: it finds accidents, not attacks.
std::string text_hash(std::string_view text);

// Of every tokenizer.ggml.* key and value, and of tokenizer.chat_template; "" where there is none.
std::string gguf_tokenizer_hash(const GgufFields& fields);
std::string gguf_template_hash(const GgufFields& fields);
// Writes both under makar.tokenizer_hash and makar.chat_template_hash.
void put_tokenizer_hashes(GgufFields& fields);

// Of a folder's tokenizer.json, and of its chat_template.jinja or the chat_template in tokenizer_config.json.
std::string folder_tokenizer_hash(const std::string& folder);
std::string folder_template_hash(const std::string& folder);

// One sentence for each hash that is kept and no longer true.
std::vector<std::string> tokenizer_warnings(const ModelSource& source);

}  // namespace makar
