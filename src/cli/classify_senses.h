// makar classify senses.
#pragma once
#include <string>
#include <vector>

namespace makar {

int run_classify_senses(const std::vector<std::string>& arguments);

}  // namespace makar
