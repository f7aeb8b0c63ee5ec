// Files of word vectors: word2vec's text and binary formats, GloVe's text (without a header), and models of
// fastText (.bin), which have the vectors of character n-grams too.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "data/byte_stream.h"
#include "lexical/word_vectors.h"

namespace makar {

enum class VectorFormat { kText, kBinary, kGlove, kFastText };
Result<VectorFormat> vector_format_named(const std::string& name);  // "text", "binary", "glove", "fasttext"

// Recognises the format by its content. A word that occurs twice keeps its first vector. Numbers must be
// finite.
Result<WordVectors> read_vectors(ByteStream& stream);
Result<WordVectors> load_vectors(const std::string& path);

// The text formats have enough digits to read back the same bits.
Status write_vectors(const WordVectors& vectors, VectorFormat format,
                     const std::function<Status(std::string_view)>& write);
Status save_vectors(const WordVectors& vectors, VectorFormat format, const std::string& path);

}  // namespace makar
