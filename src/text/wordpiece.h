// The WordPiece model: a word is split into the longest known tokens, from left to right (BERT).
#pragma once
#include "text/model.h"

namespace makar {

Result<std::unique_ptr<const TokenModel>> make_wordpiece(const Json& json);

}  // namespace makar
