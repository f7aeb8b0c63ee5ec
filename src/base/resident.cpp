#include "base/resident.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace makar {
namespace {

namespace fs = std::filesystem;

// The number in a file; none if the file holds something else, such as "max".
std::optional<int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  int64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

ResidentMemory resident_memory() {
  ResidentMemory out;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    int64_t* to = line.starts_with("VmRSS:") ? &out.now : line.starts_with("VmHWM:") ? &out.peak : nullptr;
    const size_t digit = line.find_first_of("0123456789");
    if (!to || digit == std::string::npos) continue;
    std::from_chars(line.data() + digit, line.data() + line.size(), *to);
    *to *= 1024;
  }
  return out;
}

std::optional<int64_t> cgroup_memory_limit(const std::string& membership, const std::string& root) {
  std::optional<int64_t> lowest;
  std::istringstream lines(membership);
  // "0::/path" in version 2; "4:memory:/path" in version 1, where other controllers may share the line.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,", memory = controllers.find(",memory,") != line.npos;
    if (!unified && !memory) continue;
    const fs::path top = memory ? fs::path(root) / "memory" : fs::path(root);
    const char* file = memory ? "memory.limit_in_bytes" : "memory.max";
    // Inside a container the path may not exist; all its parents are tried, up to the mounted root.
    for (fs::path at = fs::path(line.substr(second + 1)).lexically_normal();; at = at.parent_path()) {
      if (const auto limit = number_in(top / at.relative_path() / file))
        lowest = std::min(lowest.value_or(*limit), *limit);
      if (at.relative_path().empty()) break;
    }
  }
  return lowest;
}

int64_t memory_limit() {
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  std::ifstream file("/proc/self/cgroup");
  std::stringstream membership;
  membership << file.rdbuf();
  return std::min(machine, cgroup_memory_limit(membership.str()).value_or(machine));
}

}  // namespace makar
