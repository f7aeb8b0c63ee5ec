// Models of fastText (.bin): a vocabulary with counts, the rows of words and of character n-grams, and the
// output rows. Quantized models (.ftz) are not supported; of a classifier, only the word vectors are read.
#pragma once
#include <functional>
#include <string_view>

#include "lexical/byte_window.h"
#include "lexical/word_vectors.h"

namespace makar {

// Recognised by the first bytes, which remain unread.
Result<bool> is_fasttext(ByteWindow& in);
Result<WordVectors> read_fasttext(ByteWindow& in);

// Vectors without character n-grams become a model without them.
Status write_fasttext(const WordVectors& vectors, const std::function<Status(std::string_view)>& write);

}  // namespace makar
