#include "eval/sandbox_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/file.h"
#include "base/trim.h"
#include "eval/sandbox_folder.h"
#include "eval/sandbox_rules.h"

namespace makar {
namespace {

// Python: sets of texts in the same order in every run; no modules from the program's folder or the user's.
constexpr std::array kEnvironment = {"PATH=/usr/bin:/usr/local/bin:/bin", "PYTHONHASHSEED=0",
                                     "PYTHONSAFEPATH=1", "PYTHONNOUSERSITE=1"};

// With the limit of a file's size: the files that a program keeps open after it removed them take 512 MiB,
// and those that it keeps mapped as much.
constexpr int64_t kOpenFiles = 32, kCompilerOpenFiles = 64, kMappedFiles = 32;
constexpr int64_t kThreads = 256;

bool limit(int resource, int64_t value) {
  const rlimit both = {static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  return setrlimit(static_cast<__rlimit_resource>(resource), &both) == 0;
}

// Best effort, for this process: the kernel ends it first when memory runs out, and its addresses are the
// same in every run (containers may refuse this).
void prepare_process() {
  if (const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); file >= 0) {
    [[maybe_unused]] const auto written = write(file, "1000", 4);
    close(file);
  }
  personality(ADDR_NO_RANDOMIZE);
}

// What the child needs. It is made before the fork: beyond its limit of memory, which this process may
// exceed, the child cannot allocate.
struct Prepared {
  Prepared(const Process& p)
      : landlock(landlock_version()),
        calls(landlock, p.compiles),
        words(p.arguments),
        variables(kEnvironment.begin(), kEnvironment.end()) {
    variables.push_back("HOME=" + p.folder), variables.push_back("TMPDIR=" + p.folder);
    for (std::string& one : words) arguments.push_back(one.data());
    for (std::string& one : variables) environment.push_back(one.data());
    arguments.push_back(nullptr), environment.push_back(nullptr);
  }
  Prepared(const Prepared&) = delete;
  int landlock;
  CallFilter calls;
  std::vector<std::string> words, variables;
  std::vector<char*> arguments, environment;
};

// Runs in the child process: restricts it and executes the program. Writes the name of a failed step to
// `report`.
[[noreturn]] void run_child(const Process& p, const ProgramLimits& limits, const Prepared& prepared,
                            int report, pid_t parent) {
  const char* failed_step = nullptr;
  const auto need = [&](bool ok, const char* what) {
    if (!ok && !failed_step) failed_step = what;
  };
  setsid();
  need(chdir(p.folder.c_str()) == 0, "chdir");
  const int null = open("/dev/null", O_RDWR);
  need(null >= 0 && dup2(null, 0) == 0 && dup2(p.output < 0 ? null : p.output, 1) == 1 &&
           dup2(p.output < 0 ? null : p.output, 2) == 2,
       "/dev/null");
  constexpr unsigned kLast = ~0u;
  const auto kept = static_cast<unsigned>(report);
  need((kept == 3 || syscall(SYS_close_range, 3u, kept - 1, 0) == 0) &&
           syscall(SYS_close_range, kept + 1, kLast, 0) == 0,
       "close_range");
  prepare_process();
  need(limit(RLIMIT_CPU, static_cast<int64_t>(limits.seconds) + 1), "the limit of CPU time");
  need(limit(RLIMIT_FSIZE, limits.file), "the limit of file sizes");
  need(limit(RLIMIT_CORE, 0) && limit(RLIMIT_NOFILE, p.compiles ? kCompilerOpenFiles : kOpenFiles),
       "the limit of open files");
  need(limit(p.memory_limit, limits.memory), "the limit of memory");
  need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
  need(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent, "PR_SET_PDEATHSIG");
  need(restrict_files(p.folder.c_str(), prepared.landlock), "Landlock");
  need(drop_capabilities(), "capset");
  need(prepared.calls.install(), "seccomp");
  if (!failed_step) {
    execve(p.program.c_str(), prepared.arguments.data(), prepared.environment.data());
    failed_step = "execve";
  }
  [[maybe_unused]] const auto written = write(report, failed_step, std::strlen(failed_step));
  _exit(126);
}

// The folder in /proc of a thread that has the memory of a process (its first thread may have ended); "": the
// process has ended.
std::string running_thread(pid_t process) {
  std::error_code code;
  for (std::filesystem::directory_iterator it(fmt::format("/proc/{}/task", process), code), end;
       !code && it != end; it.increment(code)) {
    int64_t pages = 0;
    std::ifstream(it->path() / "statm") >> pages;
    if (pages > 0) return it->path().string();
  }
  return "";
}

// Whether a running process has too many threads or too much memory. The limits above do not count threads,
// nor the shared memory of JavaScript.
bool uses_too_much(pid_t process, int64_t memory) {
  struct stat threads = {};  // one link per thread, and two for the folder
  if (stat(fmt::format("/proc/{}/task", process).c_str(), &threads) == 0 &&
      static_cast<int64_t>(threads.st_nlink) > kThreads + 2)
    return true;
  int64_t total = 0, resident = 0;  // pages
  std::ifstream(running_thread(process) + "/statm") >> total >> resident;
  return resident > memory / sysconf(_SC_PAGESIZE);
}

// Whether a running process has mapped too many files that it removed, or hides what it has mapped.
bool maps_removed_files(pid_t process) {
  const std::string thread = running_thread(process);
  if (thread.empty()) return false;
  errno = 0;
  std::ifstream maps(thread + "/maps");
  if (!maps) return errno == EACCES || errno == EPERM;
  int64_t removed = 0;
  std::string range, access, offset, device, number, path;
  while (maps >> range >> access >> offset >> device >> number && std::getline(maps, path))
    if (path.ends_with(" (deleted)") && trimmed(path) != "/dev/zero (deleted)") ++removed;  // zero: memory
  return removed > kMappedFiles;
}

// Ends a group of processes if this process ends first: a shell waits for the end of a pipe. The signal of
// PR_SET_PDEATHSIG reaches only the compiler, not the processes that it starts.
class GroupWatcher {
 public:
  explicit GroupWatcher(pid_t group) {
    std::array<int, 2> ends = {};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
    pipe_ = ends[1];
    std::string name = "sh", option = "-c", script = "read line; kill -9 \"$1\"",
                processes = fmt::format("-{}", group);
    const std::array<char*, 6> argv = {name.data(), option.data(),    script.data(),
                                       name.data(), processes.data(), nullptr};
    char* const environment = nullptr;
    watcher_ = fork();
    if (watcher_ == 0) {
      setsid();  // Ctrl-C does not reach it
      dup2(ends[0], 0);
      fcntl(0, F_SETFD, 0);
      syscall(SYS_close_range, 1u, ~0u, 0);
      execve("/bin/sh", argv.data(), &environment);
      _exit(127);
    }
    close(ends[0]);
  }
  ~GroupWatcher() {
    if (watcher_ > 0) ::kill(watcher_, SIGKILL), waitpid(watcher_, nullptr, 0);
    if (pipe_ >= 0) close(pipe_);
  }
  GroupWatcher(const GroupWatcher&) = delete;
  GroupWatcher& operator=(const GroupWatcher&) = delete;

 private:
  pid_t watcher_ = -1;
  int pipe_ = -1;
};

}  // namespace

Result<ProcessResult> run_process(const Process& p, const ProgramLimits& limits) {
  const Prepared prepared(p);
  std::array<int, 2> report = {};
  if (pipe2(report.data(), O_CLOEXEC) != 0) return io_error("sandbox", "make a pipe");
  const pid_t parent = getpid(), child = fork();
  if (child == 0) run_child(p, limits, prepared, report[1], parent);
  close(report[1]);
  if (child < 0) {
    close(report[0]);
    return io_error("sandbox", "start a process");
  }
  std::optional<GroupWatcher> watcher;
  if (p.compiles) watcher.emplace(child);
  std::array<char, 64> failed_step = {};
  const auto size = read(report[0], failed_step.data(), failed_step.size());  // ends when the program starts
  close(report[0]);
  ProcessResult out;
  int status = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(limits.seconds);
  for (int checks = 1;; ++checks) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
    out.timed_out = std::chrono::steady_clock::now() > deadline;
    out.stopped = uses_too_much(child, limits.memory) ||
                  (checks % 50 == 0 && (maps_removed_files(child) || is_larger(p.folder, limits.disk)));
    if (out.timed_out || out.stopped) {
      ::kill(-child, SIGKILL), ::kill(child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::kill(-child, SIGKILL);  // processes that it left running
  if (size > 0)
    return error_of(Error::Kind::kUnsupported, "sandbox", "cannot be set up: {} failed",
                    std::string(failed_step.data(), static_cast<size_t>(size)));
  out.success = !out.timed_out && !out.stopped && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return out;
}

}  // namespace makar
