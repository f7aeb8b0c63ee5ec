// The WordLevel model: a word is one token, or unknown.
#pragma once
#include "text/model.h"

namespace makar {

Result<std::unique_ptr<const TokenModel>> make_word_level(const Json& json);

}  // namespace makar
