#include "data/yaml.h"

#include <algorithm>

namespace makar {
namespace {

// yaml-cpp parses nested nodes recursively, so nesting is limited before parsing.
Status check_yaml_depth(const std::string& text, const std::string& place, const char* what) {
  int depth = 0, max = 0;
  size_t indent = 0, column = 0;
  bool leading = true;
  for (const char c : text) {
    if (c == '[' || c == '{') max = std::max(max, ++depth);
    if (c == ']' || c == '}') --depth;
    if (c == '\n')
      column = 0, leading = true;
    else if (leading && (c == ' ' || c == '-' || c == '?' || c == ':'))
      indent = std::max(indent, ++column);
    else
      leading = false;
  }
  if (max > 16 || indent > 200)
    return error_of(Error::Kind::kLimit, place, "is nested too deeply for a {}", what);
  return Done{};
}

}  // namespace

Result<YAML::Node> parse_yaml(const std::string& text, const std::string& place, const char* what) {
  if (text.size() > kYamlBytes)
    return error_of(Error::Kind::kLimit, place, "is larger than {} bytes, the limit of a {}", kYamlBytes,
                    what);
  MAKAR_CHECK_OK(check_yaml_depth(text, place, what));
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& e) {
    return error_at(fmt::format("{}:{}", place, e.mark.line + 1), "is not valid YAML: {}", e.msg);
  }
}

std::string yaml_place(const YAML::Node& node, const std::string& place) {
  return fmt::format("{}:{}", place, node.Mark().line + 1);
}

}  // namespace makar
