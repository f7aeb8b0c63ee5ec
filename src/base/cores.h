// The cores that this process may use: how many threads suit them, and on which NUMA node each thread runs.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace makar {

struct Cores {
  int usable = 1;   // logical CPUs, at most the processor time of the process's cgroup
  int threads = 1;  // of a thread pool for which no number is given
  // The usable logical CPUs of each NUMA node; empty on a machine with one node, where threads run anywhere.
  std::vector<std::vector<int>> nodes;

  // The node of thread `index` of `count`: neighbouring threads share a node.
  const std::vector<int>& node_of(int index, int count) const {
    return nodes[static_cast<size_t>(index) * nodes.size() / static_cast<size_t>(count)];
  }
};

// What find_cores() reads; tests write such folders themselves.
struct CoreSources {
  std::filesystem::path system = "/sys/devices/system", cgroups = "/sys/fs/cgroup";
  std::string membership;    // the text of /proc/self/cgroup
  std::vector<int> allowed;  // logical CPUs on which the process may run
};

// threads: one per physical core, since two threads of one core share its vector units. Of cores of several
// speeds, those with which a parallel region ends first (the fastest ones, or all). At most the processor
// time that the cgroup allows.
Cores find_cores(const CoreSources& sources);

// Those of this process, read once.
const Cores& cores();

// Lets the calling thread run on these logical CPUs only. A hint: failure is harmless.
void run_on(const std::vector<int>& cpus);

}  // namespace makar
