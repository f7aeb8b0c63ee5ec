#include "base/cores.h"

#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

#include "base/cgroup.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxCpus = 8192, kMaxNodes = 1024;

std::optional<std::string> line_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  return std::getline(in, line) ? std::optional(line) : std::nullopt;
}

double number_of(const fs::path& file) {
  std::ifstream in(file);
  double value = 0;
  return in >> value && value > 0 ? value : 0;
}

// The numbers of a list such as "0-3,8".
std::vector<int> cpu_list(const std::string& text) {
  std::vector<int> out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream range(part);
    int first = 0, last = 0;
    char dash = 0;
    if (!(range >> first)) continue;
    if (!(range >> dash >> last)) last = first;
    for (int cpu = std::max(first, 0); cpu <= std::min(last, kMaxCpus - 1); ++cpu) out.push_back(cpu);
  }
  return out;
}

// The speeds of the physical cores with an allowed CPU, the fastest first. A core that reports no speed has
// that of the fastest.
std::vector<double> core_speeds(const fs::path& cpus, const std::vector<int>& allowed) {
  std::map<std::string, double> cores;  // by the list of the core's logical CPUs
  for (const char* file : {"cpu_capacity", "cpufreq/cpuinfo_max_freq"}) {
    cores.clear();
    double fastest = 0;
    for (const int cpu : allowed) {
      const fs::path folder = cpus / ("cpu" + std::to_string(cpu));
      double& speed = cores[line_of(folder / "topology/thread_siblings_list").value_or(std::to_string(cpu))];
      speed = std::max(speed, number_of(folder / file));
      fastest = std::max(fastest, speed);
    }
    if (fastest > 0) break;
  }
  std::vector<double> out;
  for (const auto& [siblings, speed] : cores) out.push_back(speed);
  std::sort(out.begin(), out.end(), std::greater<>());
  const double fastest = out.empty() || out[0] == 0 ? 1 : out[0];
  for (double& speed : out) speed = speed > 0 ? speed / fastest : 1;
  std::sort(out.begin(), out.end(), std::greater<>());
  return out;
}

// How many of the fastest cores finish a parallel region first. Idle threads take chunks from slow ones, so a
// slow core helps until the others wait for its last chunk: half a chunk on average, of about 4 per thread.
int best_count(const std::vector<double>& speeds) {
  int best = 1;
  double best_time = std::numeric_limits<double>::max(), sum = 0;
  for (size_t i = 0; i < speeds.size(); ++i) {
    const double count = static_cast<double>(i + 1);
    sum += speeds[i];
    const double time = 1 / sum + 1 / (8 * count * speeds[i]);
    if (time < best_time) best_time = time, best = static_cast<int>(i + 1);
  }
  return best;
}

// The processor time that the process's cgroups allow, in CPUs; none without a limit.
std::optional<double> cgroup_cpus(const std::string& membership, const fs::path& root) {
  std::optional<double> lowest;
  each_cgroup(membership, root, "cpu", [&](const fs::path& folder, bool version_two) {
    double quota = 0, period = 0;  // microseconds; "max" or -1: no limit
    if (version_two) {
      std::ifstream file(folder / "cpu.max");
      if (!(file >> quota >> period)) return;
    } else {
      quota = number_of(folder / "cpu.cfs_quota_us"), period = number_of(folder / "cpu.cfs_period_us");
    }
    if (quota > 0 && period > 0) lowest = std::min(lowest.value_or(quota / period), quota / period);
  });
  return lowest;
}

std::vector<Cores::Node> nodes_of(const fs::path& system, const std::vector<int>& allowed) {
  std::vector<Cores::Node> out;
  for (const int number : cpu_list(line_of(system / "node/has_cpu").value_or(""))) {
    Cores::Node node{number, {}};
    const fs::path list = system / "node" / ("node" + std::to_string(number)) / "cpulist";
    for (const int cpu : cpu_list(line_of(list).value_or("")))
      if (std::find(allowed.begin(), allowed.end(), cpu) != allowed.end()) node.cpus.push_back(cpu);
    if (!node.cpus.empty()) out.push_back(std::move(node));
  }
  return out.size() > 1 ? out : std::vector<Cores::Node>{};
}

// A set of logical CPUs of any size.
class CpuSet {
 public:
  CpuSet() : set_(CPU_ALLOC(kMaxCpus)) { CPU_ZERO_S(bytes(), set_); }
  ~CpuSet() { CPU_FREE(set_); }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;
  static size_t bytes() { return CPU_ALLOC_SIZE(kMaxCpus); }
  cpu_set_t* get() { return set_; }
  void add(int cpu) { CPU_SET_S(static_cast<size_t>(cpu), bytes(), set_); }
  bool has(int cpu) const { return CPU_ISSET_S(static_cast<size_t>(cpu), bytes(), set_); }

 private:
  cpu_set_t* set_;
};

std::vector<int> allowed_cpus() {
  std::vector<int> out;
  CpuSet set;
  if (sched_getaffinity(0, CpuSet::bytes(), set.get()) == 0) {
    for (int cpu = 0; cpu < kMaxCpus; ++cpu)
      if (set.has(cpu)) out.push_back(cpu);
  } else {
    for (int cpu = 0; cpu < static_cast<int>(std::thread::hardware_concurrency()); ++cpu) out.push_back(cpu);
  }
  return out;
}

}  // namespace

Cores find_cores(const CoreSources& sources) {
  Cores out;
  const auto logical = std::max(1, static_cast<int>(sources.allowed.size()));
  const double limit = cgroup_cpus(sources.membership, sources.cgroups).value_or(logical);
  const int time = std::max(1, static_cast<int>(std::ceil(std::min<double>(limit, logical))));
  out.usable = std::min(logical, time);
  out.threads = std::min(time, best_count(core_speeds(sources.system / "cpu", sources.allowed)));
  out.nodes = nodes_of(sources.system, sources.allowed);
  return out;
}

const Cores& cores() {
  static const Cores found = [] {
    CoreSources sources;
    sources.membership = cgroup_membership(), sources.allowed = allowed_cpus();
    return find_cores(sources);
  }();
  return found;
}

void run_on(const std::vector<int>& cpus) {
  CpuSet set;
  for (const int cpu : cpus) set.add(cpu);
  pthread_setaffinity_np(pthread_self(), CpuSet::bytes(), set.get());
}

void place_parts(void* data, size_t bytes, int threads) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const std::vector<Cores::Node>& nodes = cores().nodes;
  if (nodes.empty()) return;
  // Parts end at pages; those of large buffers at huge pages, which would be divided otherwise.
  const size_t page =
      bytes / nodes.size() >= 4 * kHugePage ? kHugePage : static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  const auto first = reinterpret_cast<uintptr_t>(data), last = first + bytes;
  const auto up = [&](uintptr_t at) { return (at + page - 1) / page * page; };
  for (int t = 0, next; t < threads; t = next) {
    const Cores::Node& node = cores().node_of(t, threads);
    for (next = t + 1; next < threads && cores().node_of(next, threads) == node;) ++next;
    const uintptr_t begin = up(first + bytes * static_cast<size_t>(t) / static_cast<size_t>(threads)),
                    end = next == threads
                              ? last
                              : up(first + bytes * static_cast<size_t>(next) / static_cast<size_t>(threads));
    std::array<unsigned long, kMaxNodes / 64> mask{};
    if (begin >= end || node.number >= kMaxNodes) continue;
    mask[static_cast<size_t>(node.number) / 64] = 1ul << node.number % 64;
    syscall(SYS_mbind, begin, end - begin, MPOL_PREFERRED, mask.data(), kMaxNodes + 1, MPOL_MF_MOVE);
  }
}

}  // namespace makar
