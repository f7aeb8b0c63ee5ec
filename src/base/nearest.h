// The known name nearest to an unknown one, for "did you mean" messages.
#pragma once
#include <string>
#include <vector>

namespace makar {

// The known name with the smallest edit distance, or "" when none is close.
std::string nearest(const std::string& name, const std::vector<std::string>& known);
// "; did you mean 'x'?" or "".
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known);

}  // namespace makar
