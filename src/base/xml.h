// Text for XML and SVG.
#pragma once
#include <string>

namespace makar {

// Escaped for an element or an attribute; control characters, line breaks among them, are dropped.
inline std::string xml_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= ' ')
      out += c;
  }
  return out;
}

}  // namespace makar
