// Detects that an index has changed, without reading its documents.
#pragma once
#include <string>

#include "base/error.h"

namespace makar {

// Differs after every committed transaction. A missing file has the stamp "".
Result<std::string> index_stamp(const std::string& path);

}  // namespace makar
