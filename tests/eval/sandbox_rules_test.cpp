// The rules of the sandbox, call by call, on a file outside of the program's folder.
#include "eval/sandbox_rules.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/close_range.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include <cerrno>
#include <functional>

#include "base/file.h"
#include "scratch_folder.h"

namespace makar {
namespace {

struct Rules {
  int version = landlock_version();
  bool compiles = false;
};
// Calls `action` in a process with the rules. Returns its errno (0: it succeeded); -1: the rules failed.
int result_of(const std::string& folder, const Rules& rules, const std::function<long()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    const bool ready = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                       restrict_files(folder.c_str(), rules.version) &&
                       CallFilter(rules.version, rules.compiles).install();
    if (!ready) _exit(255);
    _exit(action() < 0 ? errno : 0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) == 255) return -1;
  return WEXITSTATUS(status);
}

class SandboxRules : public testing::Test {
 protected:
  void SetUp() override {
    if (landlock_version() < 1) GTEST_SKIP() << "this kernel has no Landlock";
    if (result_of(own_.path(), {}, [] { return 0L; }) != 0) GTEST_SKIP() << "this system refuses seccomp";
    path_ = outside_.write("file", "text");
    file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(file_, 0);
    setxattr(path_.c_str(), "user.kept", "1", 1, 0);  // not every file system has attributes
    state();                                          // the first read changes the access time
    before_ = state();
  }
  void TearDown() override {
    if (file_ >= 0) close(file_);
  }
  // Content, mode, owner, times and attributes.
  std::string state() const {
    struct stat info = {};
    if (stat(path_.c_str(), &info) != 0) return "missing";
    char names[256] = {};
    const ssize_t size = listxattr(path_.c_str(), names, sizeof names);
    return fmt::format("{} {:o} {}:{} {}.{} {}.{} {}", read_file(path_).value(), info.st_mode, info.st_uid,
                       info.st_gid, info.st_atim.tv_sec, info.st_atim.tv_nsec, info.st_mtim.tv_sec,
                       info.st_mtim.tv_nsec, std::string(names, size > 0 ? static_cast<size_t>(size) : 0));
  }
  void expect_refused(const char* what, const std::function<long()>& action, const Rules& rules = {}) const {
    EXPECT_GT(result_of(own_.path(), rules, action), 0) << what;
    EXPECT_EQ(state(), before_) << what;
  }
  ScratchFolder own_, outside_;
  std::string path_, before_;
  int file_ = -1;
};

TEST_F(SandboxRules, FilesOutsideKeepTheirContent) {
  const char* path = path_.c_str();
  for (const int version : {1, 2, landlock_version()}) {
    const Rules rules{std::min(version, landlock_version())};
    SCOPED_TRACE(rules.version);
    expect_refused(
        "truncate", [&] { return truncate(path, 0); }, rules);
    expect_refused(
        "open for writing", [&] { return open(path, O_WRONLY); }, rules);
    expect_refused(
        "open and truncate", [&] { return open(path, O_RDONLY | O_TRUNC); }, rules);
    expect_refused(
        "open for nothing", [&] { return open(path, O_ACCMODE | O_TRUNC); }, rules);
    expect_refused(
        "openat", [&] { return openat(AT_FDCWD, path, O_ACCMODE | O_TRUNC); }, rules);
#if defined(SYS_open)
    expect_refused(
        "SYS_open", [&] { return syscall(SYS_open, path, O_ACCMODE | O_TRUNC); }, rules);
#endif
    expect_refused(
        "creat", [&] { return creat(path, 0600); }, rules);
    expect_refused(
        "unlink", [&] { return unlink(path); }, rules);
    expect_refused(
        "rename", [&] { return rename(path, (own_ / "taken").c_str()); }, rules);
    expect_refused(
        "link", [&] { return link(path, (own_ / "linked").c_str()); }, rules);
  }
}

TEST_F(SandboxRules, FilesOutsideKeepTheirModeOwnerTimesAndAttributes) {
  const char* path = path_.c_str();
  expect_refused("chmod", [&] { return chmod(path, 0777); });
  expect_refused("fchmod", [&] { return fchmod(file_, 0777); });
  expect_refused("fchmodat", [&] { return syscall(SYS_fchmodat, AT_FDCWD, path, 0777); });
  expect_refused("fchmodat2", [&] { return syscall(452, AT_FDCWD, path, 0777, 0); });
  const uid_t user = getuid() + 1;  // refused to all but root in any case
  expect_refused("chown", [&] { return chown(path, user, 0); });
  expect_refused("lchown", [&] { return lchown(path, user, 0); });
  expect_refused("fchown", [&] { return fchown(file_, user, 0); });
  expect_refused("fchownat", [&] { return fchownat(AT_FDCWD, path, user, 0, 0); });
  expect_refused("utime", [&] { return utime(path, nullptr); });
  expect_refused("utimes", [&] { return utimes(path, nullptr); });
  expect_refused("utimensat", [&] { return utimensat(AT_FDCWD, path, nullptr, 0); });
  expect_refused("futimens", [&] { return futimens(file_, nullptr); });
#if defined(SYS_futimesat)
  expect_refused("SYS_utime", [&] { return syscall(SYS_utime, path, nullptr); });
  expect_refused("SYS_utimes", [&] { return syscall(SYS_utimes, path, nullptr); });
  expect_refused("futimesat", [&] { return syscall(SYS_futimesat, AT_FDCWD, path, nullptr); });
#endif
  expect_refused("setxattr", [&] { return setxattr(path, "user.new", "1", 1, 0); });
  expect_refused("lsetxattr", [&] { return lsetxattr(path, "user.new", "1", 1, 0); });
  expect_refused("fsetxattr", [&] { return fsetxattr(file_, "user.new", "1", 1, 0); });
  expect_refused("removexattr", [&] { return removexattr(path, "user.kept"); });
  expect_refused("lremovexattr", [&] { return lremovexattr(path, "user.kept"); });
  expect_refused("fremovexattr", [&] { return fremovexattr(file_, "user.kept"); });
  struct {
    uint64_t value;
    uint32_t size, flags;
  } attribute = {reinterpret_cast<uint64_t>("1"), 1, 0};
  expect_refused("setxattrat",
                 [&] { return syscall(463, AT_FDCWD, path, 0, "user.new", &attribute, sizeof attribute); });
  expect_refused("removexattrat", [&] { return syscall(466, AT_FDCWD, path, 0, "user.kept"); });
  fsxattr flags = {};
  flags.fsx_xflags = FS_XFLAG_NODUMP;
  expect_refused("file_setattr", [&] { return syscall(469, AT_FDCWD, path, &flags, sizeof flags, 0); });
  expect_refused("FS_IOC_SETFLAGS", [&] {
    const int nodump = FS_NODUMP_FL;
    return ioctl(file_, FS_IOC_SETFLAGS, &nodump);
  });
}

// Landlock checks neither: opening for neither reading nor writing has effects on devices.
TEST_F(SandboxRules, FilesOutsideAreNeitherOpenedNorWatched) {
  const char* path = path_.c_str();
  const std::string own = own_.write("own", "text");
  const int watches = inotify_init1(IN_CLOEXEC);
  ASSERT_GE(watches, 0);
  for (const bool compiles : {false, true}) {
    const Rules rules{landlock_version(), compiles};
    const auto errno_of = [&](const std::function<long()>& action) {
      return result_of(own_.path(), rules, action);
    };
    EXPECT_EQ(errno_of([&] { return open(path, O_ACCMODE); }), EPERM);
    EXPECT_EQ(errno_of([&] { return openat(AT_FDCWD, path, O_ACCMODE | O_NOCTTY); }), EPERM);
#if defined(SYS_open)
    EXPECT_EQ(errno_of([&] { return syscall(SYS_open, path, O_ACCMODE); }), EPERM);
    EXPECT_EQ(errno_of([] { return syscall(SYS_inotify_init); }), EPERM);
#endif
    EXPECT_EQ(errno_of([] { return inotify_init1(0); }), EPERM);
    EXPECT_EQ(errno_of([&] { return inotify_add_watch(watches, path, IN_ALL_EVENTS); }), EPERM);
    EXPECT_EQ(errno_of([] { return syscall(SYS_fanotify_init, 0x200, 0); }), EPERM);  // FAN_REPORT_FID
    EXPECT_EQ(errno_of([] { return syscall(SYS_fanotify_mark, -1, 0, 0, 0, 0); }), EPERM);
    EXPECT_EQ(errno_of([&] { return fcntl(open("/usr", O_RDONLY), F_NOTIFY, DN_CREATE); }), EPERM);
    EXPECT_EQ(errno_of([&] { return open(own.c_str(), O_RDWR); }), 0);
  }
  close(watches);
}

TEST_F(SandboxRules, OnlyCompilersMayChangeModesAndStartProcesses) {
  const std::string own = own_.write("program", "");
  const Rules compiler{landlock_version(), true};
  EXPECT_EQ(result_of(own_.path(), {}, [&] { return chmod(own.c_str(), 0700); }), EPERM);
  EXPECT_EQ(result_of(own_.path(), compiler, [&] { return chmod(own.c_str(), 0700); }), 0);
  const auto start = [] {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    return static_cast<long>(child);
  };
  EXPECT_EQ(result_of(own_.path(), {}, start), EPERM);
  EXPECT_EQ(result_of(own_.path(), compiler, start), 0);
}

TEST_F(SandboxRules, OwnFilesCanBeChanged) {
  const std::string own = own_.write("own", "text");
  const std::string folder = own_ / "below";
  EXPECT_EQ(result_of(own_.path(), {}, [&] { return open(own.c_str(), O_WRONLY | O_TRUNC); }), 0);
  EXPECT_EQ(result_of(own_.path(), {}, [&] { return mkdir(folder.c_str(), 0700); }), 0);
  EXPECT_EQ(result_of(own_.path(), {}, [&] { return open("/dev/null", O_WRONLY | O_TRUNC); }), 0);
  if (landlock_version() >= 2) {
    EXPECT_EQ(result_of(own_.path(), {}, [&] { return rename(own.c_str(), (folder + "/x").c_str()); }), 0);
  }
}

TEST_F(SandboxRules, DeniesSignalsHiddenMemoryAndUncountedFiles) {
  const pid_t parent = getpid();
  const auto errno_of = [&](const std::function<long()>& action) {
    return result_of(own_.path(), {}, action);
  };
  EXPECT_EQ(errno_of([&] { return kill(parent, 0); }), EPERM);
  siginfo_t info = {};
  info.si_code = SI_QUEUE;
  EXPECT_EQ(errno_of([&] { return syscall(SYS_rt_sigqueueinfo, parent, SIGCHLD, &info); }), EPERM);
  EXPECT_EQ(errno_of([&] { return fcntl(file_, F_SETOWN, parent); }), EPERM);
  EXPECT_EQ(errno_of([&] { return fcntl(file_, F_GETFD); }), 0);
  EXPECT_EQ(errno_of([] { return prctl(PR_SET_PDEATHSIG, 0); }), EPERM);
  EXPECT_EQ(errno_of([] { return memfd_create("x", 0); }), EPERM);
  EXPECT_EQ(errno_of([] { return syscall(447, 0); }), EPERM);  // memfd_secret
  EXPECT_EQ(errno_of([] { return syscall(SYS_shmget, 1, 4096, 01600); }), EPERM);
  // Threads with open files of their own.
  EXPECT_EQ(errno_of([] {
              return syscall(SYS_clone, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, nullptr, nullptr, nullptr,
                             nullptr);
            }),
            EPERM);
  EXPECT_EQ(errno_of([] { return syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_UNSHARE); }), EPERM);
  EXPECT_EQ(errno_of([] { return syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC); }), 0);
  EXPECT_EQ(errno_of([] { return syscall(SYS_close_range, 3u, ~0u, 0); }), 0);
  const std::string own = own_ / "own";
  EXPECT_EQ(errno_of([&] { return fallocate(open(own.c_str(), O_RDWR | O_CREAT, 0600), 0, 0, 4096); }),
            EOPNOTSUPP);
}

}  // namespace
}  // namespace makar
