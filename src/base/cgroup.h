// The cgroups of a process (version 1 or 2), whose files limit memory and processor time.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace makar {

// The text of /proc/self/cgroup; empty where there is none.
std::string cgroup_membership();

// Visits the folders of the process's cgroup and of all its parents for a controller such as "memory".
// `membership` is the text of /proc/self/cgroup, `root` the folder where cgroups are mounted.
using CgroupVisitor = std::function<void(const std::filesystem::path& folder, bool version_two)>;
void each_cgroup(const std::string& membership, const std::filesystem::path& root,
                 std::string_view controller, const CgroupVisitor& visit);

}  // namespace makar
