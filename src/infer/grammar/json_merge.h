// Two JSON schemas that must both hold, as one.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace makar::grammar {

// Keywords that cannot be merged are kept from `a` and named in `lost`.
Json merge_schemas(const Json& a, const Json& b, std::vector<std::string>& lost);
// A keyword that only describes.
bool is_annotation(const std::string& keyword);

}  // namespace makar::grammar
