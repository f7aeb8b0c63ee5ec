// Function words that carry no topic, per language.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace makar {

// In lower case, separated by blanks; "" for a language without a list.
std::string_view stop_words(std::string_view language);

}  // namespace makar
