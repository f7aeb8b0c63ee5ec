// YAML behind one function: bounded size and nesting, errors with file and line.
#pragma once
#include <yaml-cpp/yaml.h>

#include <string>

#include "base/error.h"

namespace makar {

constexpr size_t kMaxYamlBytes = size_t{1} << 20;

// `what`: the kind of file, for errors ("recipe"). An empty document is a null node.
Result<YAML::Node> parse_yaml(const std::string& text, const std::string& place, const char* what);
// "FILE:LINE"
std::string yaml_place(const YAML::Node& node, const std::string& place);

}  // namespace makar
