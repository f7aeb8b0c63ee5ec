// The resident memory of this process, as the kernel counts it, and the memory it may use.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace makar {

struct ResidentMemory {
  int64_t now = 0, peak = 0;  // bytes, including pages of mapped files; 0 where the system does not report it
};
ResidentMemory resident_memory();

// Bytes that this process may use: the machine's memory, or the limit of its cgroup if that is lower.
int64_t memory_limit();
// The lowest memory limit of a cgroup (version 1 or 2) and its parents; none if nothing limits it.
// `membership` is the text of /proc/self/cgroup, `root` the folder where cgroups are mounted.
std::optional<int64_t> cgroup_memory_limit(const std::string& membership,
                                           const std::string& root = "/sys/fs/cgroup");

}  // namespace makar
