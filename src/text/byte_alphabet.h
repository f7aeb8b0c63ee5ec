// GPT-2's byte alphabet: one printable character for each of the 256 bytes, so that byte-level vocabularies
// can be stored as text. Also the byte-fallback tokens of other vocabularies.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "text/aligned_text.h"

namespace makar {

char32_t byte_to_letter(unsigned char byte);
std::optional<unsigned char> letter_to_byte(char32_t letter);
// The bytes of a vocabulary entry; nullopt when it has a character outside the alphabet.
std::optional<std::string> letters_to_bytes(std::string_view letters);
std::string bytes_to_letters(std::string_view bytes);
// Replaces each byte of the text by its letter; escaped bytes (unicode.h) become the letter of the original
// byte.
void to_byte_alphabet(AlignedText& text);
// The byte of a byte-fallback token such as "<0x0A>"; nullopt for other tokens.
std::optional<unsigned char> fallback_byte(std::string_view token);

}  // namespace makar
