// The golden components as tests, over MAKAR_GOLDEN or the copy beside this file.
#include <gtest/gtest.h>

#include <cstdlib>

#include "golden/golden.h"

namespace makar::golden {
namespace {

std::string folder() {
  const char* given = std::getenv("MAKAR_GOLDEN");
  return given ? given : MAKAR_GOLDEN_FOLDER;
}

void expect_all(const std::vector<GoldenLine>& lines, size_t least) {
  size_t passed = 0;
  for (const GoldenLine& l : lines) {
    if (std::getenv("MAKAR_OP_REPORT"))
      std::printf("%-4s %.2e / %.0e  %s %s\n", l.status.c_str(), l.worst, l.limit, l.name.c_str(),
                  l.note.c_str());
    EXPECT_NE(l.status, "fail") << l.name << ": " << l.worst << " over " << l.limit << " " << l.note;
    passed += l.status == "pass";
  }
  EXPECT_GE(passed, least);
}

TEST(Golden, Components) { expect_all(run_components(folder()), 36); }
TEST(Golden, Ppo) { expect_all(run_ppo(folder()), 6); }
TEST(Golden, AMissingFolderFailsByName) {
  const auto lines = run_components("/nowhere");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].status, "fail");
  EXPECT_NE(lines[0].note.find("/nowhere/components/golden"), std::string::npos);
}

}  // namespace
}  // namespace makar::golden
