// Cleaners: remove everything that is not running text. Their time is linear in the length of the text.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace makar {

// Removes tags, scripts and comments. Entities become characters.
std::string clean_html(std::string_view text);
// Removes templates, tables and references. Links keep their words.
std::string clean_wiki(std::string_view text);
// Removes comments, commands and environments that are not text. Formulas become a blank.
std::string clean_latex(std::string_view text);
// Removes a comment at the start of a source file that names a licence or a copyright.
std::string clean_licence(std::string_view text);
// Removes lines of navigation, cookie notices and sharing links, and repeated lines.
std::string clean_boilerplate(std::string_view text);
// Removes blanks at line ends, repeated empty lines and control characters.
std::string clean_blanks(std::string_view text);

struct Cleaner {
  const char* name;
  std::string (*clean)(std::string_view);
};
const std::vector<Cleaner>& cleaners();

}  // namespace makar
