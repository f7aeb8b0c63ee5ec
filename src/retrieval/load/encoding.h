// Bytes of a file to UTF-8.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"

namespace makar {

enum class TextEncoding { kAuto, kUtf8, kLatin1, kWindows1252, kUtf16Le, kUtf16Be };
const char* name(TextEncoding encoding);
// "auto", "utf-8", "latin-1" (iso-8859-1), "windows-1252" (cp1252), "utf-16le", "utf-16be".
Result<TextEncoding> parse_encoding(const std::string& name, const std::string& place);

// By the byte order mark; else UTF-8 if the bytes are valid; else Windows-1252 if a byte is from 0x80 to
// 0x9F, which are control characters in Latin-1; else Latin-1.
TextEncoding detect_encoding(std::string_view bytes);
// Valid UTF-8 without a byte order mark. Bytes that the encoding does not define become U+FFFD.
std::string to_utf8(std::string_view bytes, TextEncoding encoding);

}  // namespace makar
