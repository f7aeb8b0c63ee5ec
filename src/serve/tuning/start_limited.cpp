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

Result<int> start_limited(const std::vector<std::string>& command, const std::string& log, int64_t memory) {
  check(!command.empty(), "a command has a program");
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (out < 0) return io_error(log, "open");
  const int dev_null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t server = getpid();
  const pid_t child = fork();
  if (child == 0) {  // only calls that are safe after fork
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != server) _exit(126);  // the server died before the line above
    setpriority(PRIO_PROCESS, 0, 10);
    const rlimit max{static_cast<rlim_t>(memory), static_cast<rlim_t>(memory)};
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
  if (dev_null >= 0) ::close(dev_null);
  if (child < 0)
    return error_of(Error::Kind::kIo, "fine_tuning", "cannot start a process: {}", std::strerror(fork_error));
  setpgid(child, child);
  return static_cast<int>(child);
}

}  // namespace makar
