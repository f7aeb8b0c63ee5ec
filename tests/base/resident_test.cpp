#include "base/resident.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace makar {
namespace {

namespace fs = std::filesystem;

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  std::optional<int64_t> limit(const std::string& membership) {
    return cgroup_memory_limit(membership, root_.string());
  }
  fs::path root_;
};

TEST_F(CgroupTest, VersionTwoTakesTheLowestLimitOfAllParents) {
  write("memory.max", "max");
  write("a/memory.max", "5000");
  write("a/b/memory.max", "max");
  write("a/c/memory.max", "4000");
  EXPECT_EQ(limit("0::/\n"), std::nullopt);
  EXPECT_EQ(limit("0::/a\n"), 5000);
  EXPECT_EQ(limit("0::/a/b\n"), 5000);
  EXPECT_EQ(limit("0::/a/c\n"), 4000);
}

TEST_F(CgroupTest, VersionOneReadsTheLimitOfTheMemoryController) {
  write("memory/memory.limit_in_bytes", "9223372036854771712");
  write("memory/job/memory.limit_in_bytes", "7000");
  EXPECT_EQ(limit("5:cpu,cpuacct:/\n4:memory:/job\n0::/\n"), 7000);
  EXPECT_EQ(limit("4:hugetlb,memory:/job\n"), 7000);
  EXPECT_EQ(limit("4:memory:/\n"), 9223372036854771712);
}

TEST_F(CgroupTest, PathsOutsideOfAContainerFallBackToTheMountedRoot) {
  write("memory.max", "6000");
  EXPECT_EQ(limit("0::/docker/0123\n"), 6000);
  EXPECT_EQ(limit("0::/../../other\n"), 6000);
}

TEST_F(CgroupTest, InvalidTextHasNoLimit) {
  write("memory.max", "many");
  for (const char* text : {"", "\n", ":", "::", "0::", "4:memory", "0::/"})
    EXPECT_EQ(limit(text), std::nullopt) << text;
}

TEST(MemoryLimit, IsPositive) { EXPECT_GT(memory_limit(), 0); }

}  // namespace
}  // namespace makar
