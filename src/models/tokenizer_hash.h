// Hashes of a model's tokenizer and chat template, stored with the weights when a model is converted. Loading
// warns when they no longer match.
#pragma once
#include <string>
#include <vector>

#include "models/source.h"

namespace makar {

// FNV-1a, 64 bits, as 16 hexadecimal digits: detects accidents, not attacks.
std::string text_hash(std::string_view text);

// The hash of the keys tokenizer.ggml.* and tokenizer.huggingface.json with their values, and the hash of
// tokenizer.chat_template; "" when there are none.
std::string gguf_tokenizer_hash(const GgufFields& fields);
std::string gguf_template_hash(const GgufFields& fields);
// Stores both as makar.tokenizer_hash and makar.chat_template_hash.
void put_tokenizer_hashes(GgufFields& fields);

// The hash of a folder's tokenizer.json, and that of its chat_template.jinja or of chat_template in
// tokenizer_config.json.
std::string folder_tokenizer_hash(const std::string& folder);
std::string folder_template_hash(const std::string& folder);

// One sentence for each stored hash that no longer matches.
std::vector<std::string> tokenizer_warnings(const ModelSource& source);

}  // namespace makar
