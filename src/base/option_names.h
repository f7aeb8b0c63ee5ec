// Options in error messages. A module below cli names an option by its key between backquotes, as in
// "`min_tokens` exceeds `max_tokens`"; the layer that reports the error spells it for its users.
#pragma once
#include <string>
#include <string_view>

namespace makar {

std::string options_as_flags(std::string_view message);   // `max_tokens` -> --max-tokens
std::string options_as_fields(std::string_view message);  // `max_tokens` -> max_tokens

}  // namespace makar
