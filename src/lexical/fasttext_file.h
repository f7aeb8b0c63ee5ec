// Models of fastText (.bin): a vocabulary with counts, the rows of words and of character n-grams, and the
// output rows. Quantised models (.ftz) are not read; of classifiers, the words are.
#pragma once
#include <functional>
#include <string_view>

#include "lexical/byte_window.h"
#include "lexical/word_vectors.h"

namespace makar {

// By the first bytes, which are not taken.
Result<bool> is_fasttext(ByteWindow& in);
Result<WordVectors> read_fasttext(ByteWindow& in);

// Vectors without character n-grams become a model without them.
Status write_fasttext(const WordVectors& vectors, const std::function<Status(std::string_view)>& write);

}  // namespace makar
