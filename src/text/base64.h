// Base64 (RFC 4648), for character maps and tiktoken ranks.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace makar {

std::optional<std::string> decode_base64(std::string_view text);
std::string encode_base64(std::string_view bytes);

}  // namespace makar
