// Quotes text: for messages, and for SQL and CSV.
#pragma once
#include <string>
#include <string_view>

namespace makar {

// Untrusted text for a message: 'name', with control characters as \xNN and at most `limit` bytes of the text
// followed by "...".
std::string quote(std::string_view text, size_t limit = 80);

// "text" in double quotes, with quotes inside doubled: an identifier of SQL, a cell of CSV.
std::string double_quoted(std::string_view text);

}  // namespace makar
