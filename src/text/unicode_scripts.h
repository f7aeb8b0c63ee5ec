// The pattern of the UnicodeScripts pre-tokenizer: runs of one script, Japanese scripts taken as Han, blanks
// staying with the run before them.
#pragma once
#include <string>

namespace makar {

std::string unicode_scripts_pattern();

}  // namespace makar
