// Cleaners: remove everything that is not running text. Each reads the text once or a fixed number of times.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace makar {

std::string clean_html(std::string_view text);  // tags, scripts, comments; entities become characters
std::string clean_wiki(std::string_view text);  // links keep their words; templates, tables, references go
std::string clean_latex(
    std::string_view text);  // comments, commands, environments that are not text; formulas become a blank
// A comment at the start of a source file that names a licence or a copyright.
std::string clean_licence(std::string_view text);
// Lines of navigation, cookies and sharing; repeated lines.
std::string clean_boilerplate(std::string_view text);
// Blanks at line ends, more than one empty line, control characters.
std::string clean_blanks(std::string_view text);

struct Cleaner {
  const char* name;
  std::string (*clean)(std::string_view);
  const char* summary;
};
const std::vector<Cleaner>& cleaners();

}  // namespace makar
