// Programs in the sandbox: outcomes, limits, and what they may not do.
#include "eval/sandbox.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "scratch_folder.h"

namespace makar {
namespace {

class Sandbox : public testing::Test {
 protected:
  void SetUp() override {
    const auto works = run_program("python", "");
    if (!works.ok()) GTEST_SKIP() << works.error().text();
    ASSERT_TRUE(works->passed);
  }
  static bool passes(const std::string& source, const std::string& language = "python", double seconds = 10) {
    ProgramLimits limits;
    limits.seconds = seconds;
    const auto outcome = run_program(language, source, limits);
    EXPECT_TRUE(outcome.ok()) << outcome.error().text();
    return outcome.ok() && outcome->passed;
  }
};

TEST_F(Sandbox, TestsPassOrFail) {
  EXPECT_TRUE(passes("def f(x):\n    return x + 1\nassert f(1) == 2\n"));
  EXPECT_FALSE(passes("def f(x):\n    return x\nassert f(1) == 2\n"));
  EXPECT_FALSE(passes("def f(:\n"));
  EXPECT_TRUE(passes("import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()\n"));
}

TEST_F(Sandbox, AProgramThatExitsEarlyDoesNotPass) {
  EXPECT_FALSE(passes("import sys\nsys.exit(0)\n"));
  EXPECT_FALSE(passes("import os\nos._exit(0)\n"));
}

TEST_F(Sandbox, TimeAndMemoryAreLimited) {
  ProgramLimits limits;
  limits.seconds = 0.5;
  const auto endless = run_program("python", "while True: pass\n", limits);
  ASSERT_TRUE(endless.ok());
  EXPECT_TRUE(endless->timed_out);
  EXPECT_FALSE(endless->passed);
  EXPECT_FALSE(passes("import time\ntime.sleep(60)\n", "python", 0.5));
  EXPECT_FALSE(passes("x = bytearray(4 << 30)\n"));
  EXPECT_FALSE(passes("f = open('big', 'wb')\nfor i in range(200): f.write(bytes(1 << 20))\n"));
}

TEST_F(Sandbox, TheTotalSizeOfAllFilesIsLimited) {
  ProgramLimits limits;
  limits.seconds = 60, limits.disk = 8 << 20;
  const auto begin = std::chrono::steady_clock::now();
  const auto filling = run_program(
      "python",
      "import time\nfor i in range(40): open('f%d' % i, 'wb').write(bytes(1 << 20))\ntime.sleep(60)\n",
      limits);
  ASSERT_TRUE(filling.ok());
  EXPECT_FALSE(filling->passed);
  EXPECT_FALSE(filling->timed_out);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 30);
}

TEST_F(Sandbox, DeniesNetworkProcessesAndOtherFiles) {
  const ScratchFolder folder;
  const std::string precious = folder.path() + "/precious";
  ASSERT_TRUE(write_file(precious, "x").ok());
  // Each denied() call must raise an OSError; writing in the program's own folder must work.
  EXPECT_TRUE(passes(R"(
import os, signal, socket, subprocess
def denied(f, *arguments):
    try:
        f(*arguments)
    except OSError:
        return
    raise SystemExit(1)
denied(socket.socket)
denied(os.fork)
denied(subprocess.run, ['/bin/true'])
denied(os.kill, os.getppid(), signal.SIGTERM)
denied(open, '/etc/passwd')
denied(open, ')" + precious +
                     R"(')
denied(open, ')" + precious +
                     R"(', 'w')
denied(os.remove, ')" +
                     precious + R"(')
denied(open, '/tmp/makar-outside', 'w')
with open('own', 'w') as f: f.write('x')
)"));
  EXPECT_TRUE(std::filesystem::exists(precious));
}

TEST_F(Sandbox, RunsJavaScriptAndCpp) {
  if (const auto node = run_program("javascript", ""); node.ok()) {
    EXPECT_TRUE(passes("const assert = require('node:assert'); assert.deepEqual([1], [1]);", "javascript"));
    EXPECT_FALSE(passes("require('node:assert').deepEqual([1], [2]);", "javascript"));
    EXPECT_FALSE(passes("process.exit(0);", "javascript"));
  }
  const auto compiled = run_program("cpp", "int main() { return 0; }");
  if (!compiled.ok() || !compiled->compiled) GTEST_SKIP() << "no C++ compiler";
  EXPECT_TRUE(compiled->passed);
  EXPECT_FALSE(passes("#include <cassert>\nint main() { assert(false); }", "cpp"));
  EXPECT_FALSE(run_program("cpp", "int main( {")->compiled);
}

}  // namespace
}  // namespace makar
