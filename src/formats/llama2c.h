// llama2.c checkpoints and tokenizer.bin, presented as GGUF. Versions 0 (f32, stories15M.bin) and 1
// are used in place; version 2 (int8 with f32 scales) is dequantized to f32.
#pragma once
#include "formats/gguf.h"

namespace makar {

Result<Gguf::File> open_llama2c(const std::string& path);
// The same for bytes in memory.
Result<Gguf::File> parse_llama2c(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                 std::string place);

// The tokenizer.ggml.* keys for a tokenizer.bin with `vocab` tokens.
Result<GgufFields> parse_llama2c_tokenizer(std::span<const std::byte> bytes, int64_t vocab,
                                           const std::string& place);

}  // namespace makar
