// Whether two tokenizers give a text the same ids, whatever format each was read from.
#pragma once
#include "text/tokenizer.h"

namespace makar {

// Compares the tokens of all ids and the encodings of sample texts and of the vocabulary's own pieces. A
// vocabulary may be shorter than the other: files pad it to the size of a matrix. Fails with the first
// difference; `place` names the first tokenizer in the error, `other` the second.
Status check_same_tokens(const Tokenizer& a, const Tokenizer& b, const std::string& place,
                         const std::string& other);

}  // namespace makar
