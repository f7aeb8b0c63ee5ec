#include "base/cores.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

namespace makar {
namespace {

namespace fs = std::filesystem;

// Machines written into a folder as the kernel would report them.
class CoresTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    sources_.system = root_ / "system", sources_.cgroups = root_ / "cgroup";
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  // Adds a physical core with `logical` CPUs.
  void add_core(int logical, int speed, const std::string& file = "cpu_capacity") {
    const int first = static_cast<int>(sources_.allowed.size());
    for (int cpu = first; cpu < first + logical; ++cpu) {
      const fs::path folder = fs::path("system/cpu") / ("cpu" + std::to_string(cpu));
      write(folder / "topology/thread_siblings_list",
            logical == 1 ? std::to_string(cpu)
                         : std::to_string(first) + "-" + std::to_string(first + logical - 1));
      if (speed > 0) write(folder / file, std::to_string(speed));
      sources_.allowed.push_back(cpu);
    }
  }
  void add_cores(int count, int logical, int speed, const std::string& file = "cpu_capacity") {
    for (int i = 0; i < count; ++i) add_core(logical, speed, file);
  }
  int threads() { return find_cores(sources_).threads; }

  fs::path root_;
  CoreSources sources_;
};

TEST_F(CoresTest, WithoutInformationEveryLogicalCpuIsACore) {
  sources_.allowed = {0, 1, 2, 3};
  const Cores c = find_cores(sources_);
  EXPECT_EQ(c.threads, 4);
  EXPECT_EQ(c.usable, 4);
  EXPECT_TRUE(c.nodes.empty());
  sources_.allowed = {};
  EXPECT_EQ(threads(), 1);
}

TEST_F(CoresTest, OneThreadPerHyperThreadedCore) {
  add_cores(8, 2, 0);
  EXPECT_EQ(threads(), 8);
  EXPECT_EQ(find_cores(sources_).usable, 16);
  sources_.allowed = {0, 1, 2, 4};  // two logical CPUs of one core, one of each of two others
  EXPECT_EQ(threads(), 3);
  EXPECT_EQ(find_cores(sources_).usable, 4);
}

TEST_F(CoresTest, SlowCoresTakePartWhereTheyShortenARegion) {
  add_cores(8, 2, 5200000, "cpufreq/cpuinfo_max_freq");
  add_cores(8, 1, 3900000, "cpufreq/cpuinfo_max_freq");
  EXPECT_EQ(threads(), 16);
}

TEST_F(CoresTest, VerySlowCoresStayIdle) {
  add_cores(6, 2, 1024);
  add_cores(8, 1, 614);
  add_cores(2, 1, 300);
  EXPECT_EQ(threads(), 14);
}

TEST_F(CoresTest, OneSlowCoreBesideManyFastOnesStaysIdle) {
  add_cores(16, 1, 1024);
  add_core(1, 200);
  EXPECT_EQ(threads(), 16);
}

TEST_F(CoresTest, FourFastAndFourSlowCoresOfAPhone) {
  add_cores(4, 1, 350);
  add_cores(3, 1, 870);
  add_core(1, 1024);
  EXPECT_EQ(threads(), 8);
}

TEST_F(CoresTest, AffinityAndProcessorTimeLimitTheThreads) {
  add_cores(16, 1, 0);
  sources_.membership = "0::/job\n";
  write("cgroup/cpu.max", "max 100000");
  EXPECT_EQ(threads(), 16);
  write("cgroup/job/cpu.max", "350000 100000");
  EXPECT_EQ(threads(), 4);
  EXPECT_EQ(find_cores(sources_).usable, 4);
  sources_.allowed = {3, 5};
  EXPECT_EQ(threads(), 2);
  write("cgroup/job/cpu.max", "20000 100000");
  EXPECT_EQ(threads(), 1);
}

TEST_F(CoresTest, ProcessorTimeOfVersionOne) {
  add_cores(8, 1, 0);
  sources_.membership = "3:cpu,cpuacct:/job\n2:memory:/\n";
  write("cgroup/cpu/job/cpu.cfs_quota_us", "-1");
  write("cgroup/cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(threads(), 8);
  write("cgroup/cpu/cpu.cfs_quota_us", "200000");
  write("cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(threads(), 2);
}

TEST_F(CoresTest, NeighbouringThreadsShareANode) {
  add_cores(8, 1, 0);
  write("system/node/has_cpu", "0-1");
  write("system/node/node0/cpulist", "0-3");
  write("system/node/node1/cpulist", "4-7");
  Cores c = find_cores(sources_);
  ASSERT_EQ(c.nodes.size(), 2u);
  for (int t = 0; t < 6; ++t) EXPECT_EQ(c.node_of(t, 6), c.nodes[t < 3 ? 0 : 1]) << t;
  sources_.allowed = {1, 2};  // one node is left
  EXPECT_TRUE(find_cores(sources_).nodes.empty());
  sources_.allowed = {1, 6};
  c = find_cores(sources_);
  EXPECT_EQ(c.nodes, (std::vector<Cores::Node>{{0, {1}}, {1, {6}}}));
}

TEST_F(CoresTest, InvalidFilesAreIgnored) {
  add_cores(2, 1, 0);
  write("system/cpu/cpu0/cpu_capacity", "fast");
  write("system/node/has_cpu", "0-99999999,x,-5");
  write("system/node/node0/cpulist", "?");
  write("cgroup/cpu.max", "much");
  sources_.membership = "0::/\n";
  EXPECT_EQ(threads(), 2);
  EXPECT_TRUE(find_cores(sources_).nodes.empty());
}

TEST(Cores, OfThisMachine) {
  EXPECT_GE(cores().usable, 1);
  EXPECT_GE(cores().threads, 1);
  EXPECT_LE(cores().threads, cores().usable);
}

}  // namespace
}  // namespace makar
