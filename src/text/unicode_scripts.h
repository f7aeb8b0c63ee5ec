// The pattern of the UnicodeScripts pre-tokenizer: runs of one script; Japanese scripts count as Han, and
// blanks stay with the preceding run.
#pragma once
#include <string>

namespace makar {

std::string unicode_scripts_pattern();

}  // namespace makar
