// The readable text of an HTML page.
#pragma once
#include <string>
#include <string_view>

namespace makar {

struct HtmlText {
  std::string title, text;
};

// Drops tags, comments, scripts and styles; decodes character references; puts blocks on lines of their own.
// Headings become lines that begin with "#", list items lines that begin with "- ", as in Markdown. Any bytes
// are accepted: there is no invalid HTML. Takes time in proportion to the size.
HtmlText read_html(std::string_view html);

}  // namespace makar
