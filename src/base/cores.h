// The cores that this process may use: how many threads suit them, and on which NUMA node each thread runs.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace makar {

struct Cores {
  struct Node {
    int number = 0;
    std::vector<int> cpus;  // its usable logical CPUs
    bool operator==(const Node&) const = default;
  };

  int usable = 1;           // logical CPUs, at most the processor time of the process's cgroup
  int threads = 1;          // of a thread pool for which no number is given
  std::vector<Node> nodes;  // NUMA nodes; empty on a machine with one, where threads run anywhere

  // The node of thread `index` of `count`: neighbouring threads share a node.
  const Node& node_of(int index, int count) const {
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

// For a buffer of which thread i of a pool reads the i-th part: puts each part on the node of its thread.
// Nothing happens on a machine with one node, and failure is harmless.
void place_parts(void* data, size_t bytes, int threads);

}  // namespace makar
