#pragma once
#include "text/model.h"

namespace makar {

Result<std::unique_ptr<const TokenModel>> make_wordpiece(const Json& json);

}  // namespace makar
