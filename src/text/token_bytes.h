// The bytes that each token adds to a text, for constrained decoding.
#pragma once
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace makar {

// By id; empty for special tokens and for ids without a token. A token is decoded as in the middle of a text,
// so that a token that starts a word keeps its space; a byte-fallback token is that byte.
std::vector<std::string> token_bytes(const Tokenizer& tokenizer);

}  // namespace makar
