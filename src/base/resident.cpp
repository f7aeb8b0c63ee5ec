#include "base/resident.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/cgroup.h"

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
  each_cgroup(membership, root, "memory", [&](const fs::path& folder, bool version_two) {
    if (const auto limit = number_in(folder / (version_two ? "memory.max" : "memory.limit_in_bytes")))
      lowest = std::min(lowest.value_or(*limit), *limit);
  });
  return lowest;
}

int64_t memory_limit() {
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  return std::min(machine, cgroup_memory_limit(cgroup_membership()).value_or(machine));
}

}  // namespace makar
