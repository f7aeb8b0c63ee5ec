// Options in error messages. A module below cli names an option by its key between backquotes, as in
// "`min_tokens` exceeds `max_tokens`"; the layer that reports the error spells it for its users. Options
// that are set when the program starts and have no field in a request are `program.mem_budget`.
#pragma once
#include <string>
#include <string_view>

namespace makar {

// `max_tokens` -> --max-tokens, `program.mem_budget` -> --mem-budget
std::string options_as_flags(std::string_view message);
// `max_tokens` -> max_tokens, `program.mem_budget` -> --mem-budget after `owner`, such as "the server's "
std::string options_as_fields(std::string_view message, std::string_view owner = "");

}  // namespace makar
