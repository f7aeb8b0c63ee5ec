#pragma once
#include "text/model.h"

namespace makar {

Result<std::unique_ptr<const Model>> make_word_level(const Json& json);

}  // namespace makar
