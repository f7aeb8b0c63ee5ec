#include "base/cgroup.h"

#include <fstream>
#include <sstream>

namespace makar {

namespace fs = std::filesystem;

std::string cgroup_membership() {
  std::ifstream file("/proc/self/cgroup");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void each_cgroup(const std::string& membership, const fs::path& root, std::string_view controller,
                 const CgroupVisitor& visit) {
  std::istringstream lines(membership);
  // "0::/path" in version 2; "4:memory:/path" in version 1, where other controllers may share the line.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool version_two = controllers == ",,";
    if (!version_two && controllers.find("," + std::string(controller) + ",") == line.npos) continue;
    const fs::path top = version_two ? root : root / controller;
    // Inside a container the path may not exist; all its parents are visited, up to the mounted root.
    for (fs::path at = fs::path(line.substr(second + 1)).lexically_normal();; at = at.parent_path()) {
      visit(top / at.relative_path(), version_two);
      if (at.relative_path().empty()) break;
    }
  }
}

}  // namespace makar
