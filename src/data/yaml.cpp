#include "data/yaml.h"

#include <algorithm>

namespace makar {
namespace {

// yaml-cpp parses nested nodes recursively, so nesting is limited before parsing.
Status check_yaml_depth(const std::string& text, const std::string& place, const char* what) {
  constexpr int kMaxBrackets = 16;
  constexpr size_t kMaxIndent = 200;
  int depth = 0, max_depth = 0;
  size_t indent = 0, column = 0;
  bool leading = true;
  for (const char c : text) {
    if (c == '[' || c == '{') max_depth = std::max(max_depth, ++depth);
    if (c == ']' || c == '}') --depth;
    if (c == '\n')
      column = 0, leading = true;
    else if (leading && (c == ' ' || c == '-' || c == '?' || c == ':'))
      indent = std::max(indent, ++column);
    else
      leading = false;
  }
  if (max_depth > kMaxBrackets || indent > kMaxIndent)
    return error_of(Error::Kind::kLimit, place, "is nested too deeply for a {}", what);
  return Done{};
}

}  // namespace

Result<YAML::Node> parse_yaml(const std::string& text, const std::string& place, const char* what) {
  if (text.size() > kMaxYamlBytes)
    return error_of(Error::Kind::kLimit, place, "is larger than {} bytes, the limit of a {}", kMaxYamlBytes,
                    what);
  MAKAR_RETURN_IF_ERROR(check_yaml_depth(text, place, what));
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
