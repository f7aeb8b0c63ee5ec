// Text from outside inside a message: quoted, cut to a bounded length, control characters made visible.
#pragma once
#include <string>
#include <string_view>

namespace makar {

// 'name', with anything under a space as \xNN and at most `limit` bytes of the text followed by "...".
std::string shown(std::string_view text, size_t limit = 80);

}  // namespace makar
