// Quotes untrusted text for a message: bounded length, control characters escaped.
#pragma once
#include <string>
#include <string_view>

namespace makar {

// 'name', with control characters as \xNN and at most `limit` bytes of the text followed by "...".
std::string quote(std::string_view text, size_t limit = 80);

}  // namespace makar
