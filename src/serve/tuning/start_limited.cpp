#include "serve/tuning/start_limited.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace makar {
namespace {

// Space for the message of a process that ends because the disk is full.
constexpr off_t kReservedOutput = 64 << 10;

// After fork: only async-signal-safe calls. Readers take an empty file as no process.
void copy_own_stat(int to) {
  char text[1024];
  const int from = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  const ssize_t size = ::read(from, text, sizeof text);
  if (size > 0 && ::write(to, text, static_cast<size_t>(size)) != size) (void)ftruncate(to, 0);
}

}  // namespace

Status reserve_output(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return io_error(path, "open");
  const off_t end = ::lseek(file, 0, SEEK_END);
  const bool full = ::fallocate(file, FALLOC_FL_KEEP_SIZE, end, kReservedOutput) != 0 && is_disk_full(errno);
  const Error error = full ? io_error(path, "reserve space") : Error();
  ::close(file);
  if (full) return error;
  return Done{};
}

bool is_disk_full(int error_number) { return error_number == ENOSPC || error_number == EDQUOT; }

bool is_disk_full(const std::string& message) {
  return message.find(std::strerror(ENOSPC)) != message.npos ||
         message.find(std::strerror(EDQUOT)) != message.npos;
}

Result<int> start_limited(const std::vector<std::string>& command, const ProcessSettings& settings) {
  check(!command.empty(), "a command has a program");
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  MAKAR_RETURN_IF_ERROR(reserve_output(settings.output));
  const int out = ::open(settings.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (out < 0) return io_error(settings.output, "open");
  const int stat = ::open(settings.stat.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int dev_null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t server = getpid();
  const pid_t child = fork();
  if (child == 0) {  // only calls that are safe after fork
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != server) _exit(126);  // the server died before the line above
    copy_own_stat(stat);
    if (chdir(settings.folder.c_str()) != 0) _exit(126);
    setpriority(PRIO_PROCESS, 0, 10);
    const auto memory = static_cast<rlim_t>(settings.memory);
    const rlimit max{memory, memory};
    setrlimit(RLIMIT_DATA, &max);
    const rlimit no_core_dump{0, 0};
    setrlimit(RLIMIT_CORE, &no_core_dump);
    sigset_t no_signals;
    sigemptyset(&no_signals);
    sigprocmask(SIG_SETMASK, &no_signals, nullptr);
    signal(SIGPIPE, SIG_DFL), signal(SIGTERM, SIG_DFL), signal(SIGINT, SIG_DFL);
    dup2(dev_null, 0), dup2(out, 1), dup2(out, 2);
    close_range(3, ~0U, 0);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  const int fork_error = errno;
  ::close(out);
  if (stat >= 0) ::close(stat);
  if (dev_null >= 0) ::close(dev_null);
  if (child < 0)
    return error_of(Error::Kind::kIo, "fine_tuning", "cannot start a process: {}", std::strerror(fork_error));
  setpgid(child, child);
  return static_cast<int>(child);
}

}  // namespace makar
