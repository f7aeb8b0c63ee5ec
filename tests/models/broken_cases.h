// The table of broken model folders.
#pragma once
#include <string>
#include <vector>

#include "models/broken_folder.h"

namespace makar::broken {

struct Case {
  std::string name;
  std::string base;  // the intact folder it starts from
  Edit edit;
  std::vector<std::string> expected;  // substrings of the message
  bool config_is_valid = false;       // inspect still shows the config, with a warning
};

std::vector<Case> config_files();
std::vector<Case> config_fields();
std::vector<Case> weight_files();
std::vector<Case> tensors();
std::vector<Case> shards();

inline std::string nested(int depth) {
  const auto n = static_cast<size_t>(depth);
  return "{\"a\":" + std::string(n, '[') + std::string(n, ']') + "}";
}

}  // namespace makar::broken
