#pragma once
#include "text/model.h"

namespace makar {

Result<std::unique_ptr<const Model>> make_wordpiece(const Json& json);

}  // namespace makar
