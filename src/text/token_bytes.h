// The bytes each token adds to a text: what constrained decoding matches grammars against.
#pragma once
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace makar {

// By id; empty for special tokens and for ids without a token. A token is taken as it stands in the midst of
// a text, so that one that begins a word has its space; a byte of a byte fallback is that byte.
std::vector<std::string> token_bytes(const Tokenizer& tokenizer);

}  // namespace makar
