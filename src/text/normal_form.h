// NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15). For each output character it reports the change to the
// input, as AlignedText needs it.
#pragma once
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace makar {

struct NormalizedChar {
  char32_t code;
  int change;  // 1: inserted; 0: replaces one character; -n: replaces 1 + n
};

std::vector<NormalizedChar> normal_form(std::string_view text, NormalForm form);
// True when the text is certainly in that form already; false means that it may not be.
bool known_in_form(std::string_view text, NormalForm form);

}  // namespace makar
