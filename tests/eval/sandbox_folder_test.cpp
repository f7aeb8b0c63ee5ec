// The folders of programs in the sandbox: how many folders they may have, and what a process that is killed
// leaves.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "sandbox_fixture.h"
#include "scratch_folder.h"

namespace makar {
namespace {

// With a folder for temporary files of its own.
class SandboxFolder : public Sandbox {
 protected:
  SandboxFolder() { setenv("TMPDIR", temporary_.path().c_str(), 1); }
  ~SandboxFolder() override { old_ ? setenv("TMPDIR", kept_.c_str(), 1) : unsetenv("TMPDIR"); }

  // The number of processes that work in folders of programs.
  int64_t programs() const {
    int64_t out = 0;
    std::error_code code;
    for (const auto& process : std::filesystem::directory_iterator("/proc", code))
      if (const auto folder = std::filesystem::read_symlink(process.path() / "cwd", code);
          !code && folder.string().starts_with(temporary_.path()))
        ++out;
    return out;
  }
  template <class Condition>
  static bool comes_true(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return condition();
  }
  const ScratchFolder temporary_;

 private:
  const char* const old_ = std::getenv("TMPDIR");
  const std::string kept_ = old_ ? old_ : "";
};

TEST_F(SandboxFolder, DeepFoldersStopTheProgramAndAreRemoved) {
  const std::string deep = R"(
import os, time
open('moved-0', 'w').close()
os.mkdir('moved-1')
for i in range(1500):
    name = 'd' * 200
    os.mkdir(name)
    open(name + '/file', 'w').close()
    os.symlink('/', name + '/link')
    os.mkdir(name + '/unreadable', 0)
    os.chdir(name)
)";
  EXPECT_TRUE(run_program("python", deep).ok());  // it may end before its folder is measured
  EXPECT_TRUE(is_stopped(deep + "time.sleep(60)\n"));
  EXPECT_TRUE(std::filesystem::is_empty(temporary_.path()));
}

TEST_F(SandboxFolder, TheNumberOfFoldersIsLimited) {
  const auto make_folders = [](int count, double wait) {
    return fmt::format(
        "import os, time\nfor i in range({}): os.makedirs(f'{{i % 7}}/{{i}}')\ntime.sleep({})\n", count,
        wait);
  };
  EXPECT_TRUE(passes(make_folders(400, 0.3)));
  EXPECT_TRUE(is_stopped(make_folders(600, 60)));
  EXPECT_TRUE(std::filesystem::is_empty(temporary_.path()));
}

TEST_F(SandboxFolder, FoldersOfEndedProcessesAreRemoved) {
  const std::string left = temporary_ / "makar-program-left", used = temporary_ / "makar-program-used",
                    other = temporary_ / "other-program";
  for (const std::string& one : {left, used, other}) std::filesystem::create_directories(one + "/inner");
  const int lock = open(used.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  EXPECT_TRUE(passes(""));
  EXPECT_FALSE(is_folder(left));
  EXPECT_TRUE(is_folder(used + "/inner"));
  EXPECT_TRUE(is_folder(other + "/inner"));
  close(lock);
}

TEST_F(SandboxFolder, AFolderInUseIsKept) {
  std::thread other([] { EXPECT_TRUE(passes("import time\ntime.sleep(0.5)\n")); });
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(passes(""));
  other.join();
}

TEST_F(SandboxFolder, AKillEndsTheCompilerAndItsProcesses) {
  if (!runs("cpp")) GTEST_SKIP() << "no C++ compiler";
  // Takes much longer to compile than the test.
  const std::string slow =
      "template <int N, int M> struct F { static constexpr long v = F<N - 1, M>::v + F<N - 1, M + 1>::v; };\n"
      "template <int M> struct F<0, M> { static constexpr long v = M; };\n"
      "int main() { return F<800, 0>::v; }\n";
  const pid_t killed = fork();
  if (killed == 0) {
    (void)run_program("cpp", slow);
    _exit(0);
  }
  EXPECT_TRUE(comes_true([&] { return programs() >= 2; }));  // c++ and cc1plus
  kill(killed, SIGKILL);
  int status = 0;
  waitpid(killed, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));  // it had not ended
  EXPECT_TRUE(comes_true([&] { return programs() == 0; }));
  EXPECT_FALSE(std::filesystem::is_empty(temporary_.path()));
  EXPECT_TRUE(passes(""));
  EXPECT_TRUE(std::filesystem::is_empty(temporary_.path()));
}

}  // namespace
}  // namespace makar
