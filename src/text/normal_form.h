// NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15) with, for each character that comes out, how it relates
// to the characters that went in: what AlignedText needs.
#pragma once
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace makar {

struct FormedChar {
  char32_t code;
  int change;  // 1 inserted, 0 in place of one character, -n in place of 1 + n
};

std::vector<FormedChar> normal_form(std::string_view text, NormalForm form);
// True when the text surely is in that form already. A false answer only means that one must look.
bool surely_in_form(std::string_view text, NormalForm form);

}  // namespace makar
