// GPT-2's alphabet: each of the 256 bytes stands as one printable character, so that byte-level vocabularies
// can be written as text.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "text/aligned_text.h"

namespace makar {

char32_t byte_to_letter(unsigned char byte);
std::optional<unsigned char> letter_to_byte(char32_t letter);
// The bytes a vocabulary entry stands for, or nothing when it holds a character outside the alphabet.
std::optional<std::string> letters_to_bytes(std::string_view letters);
std::string bytes_to_letters(std::string_view bytes);
// Each byte of the text becomes its letter; escaped bytes (unicode.h) become the letter of the byte they
// stand for.
void to_byte_alphabet(AlignedText& text);

}  // namespace makar
