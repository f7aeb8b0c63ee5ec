// Tells whether an index has changed, without reading it.
#pragma once
#include <string>

#include "base/error.h"

namespace makar {

// Differs after every committed transaction. A missing file has the stamp "".
Result<std::string> index_stamp(const std::string& path);

}  // namespace makar
