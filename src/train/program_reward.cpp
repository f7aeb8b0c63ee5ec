// A reward from a program: a child process with limits on time, memory and output.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "train/reward_rules.h"

namespace makar {
namespace {

constexpr int kTimeoutSeconds = 10;
constexpr rlim_t kMaxMemoryBytes = rlim_t{2} << 30;
constexpr size_t kMaxOutputBytes = size_t{64} << 10;

void limit(int resource, rlim_t max) {
  const rlimit limits{max, max};
  setrlimit(resource, &limits);
}

struct Pipe {
  int ends[2] = {-1, -1};
  bool open() { return pipe2(ends, O_CLOEXEC) == 0; }
  void close_end(int i) {
    if (ends[i] >= 0) ::close(ends[i]);
    ends[i] = -1;
  }
  ~Pipe() { close_end(0), close_end(1); }
};

// Writes the input and reads the output until both are closed; false: out of time.
bool exchange(Pipe& in, Pipe& out, std::string_view input, std::string& output) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kTimeoutSeconds);
  while (out.ends[0] >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd polled[2] = {{out.ends[0], POLLIN, 0}, {in.ends[1], POLLOUT, 0}};
    if (poll(polled, in.ends[1] >= 0 ? 2 : 1, static_cast<int>(left)) < 0 && errno != EINTR) return false;
    if (polled[0].revents != 0) {
      char block[4096];
      const ssize_t bytes_read = read(out.ends[0], block, sizeof block);
      if (bytes_read == 0 || (bytes_read < 0 && errno != EINTR && errno != EAGAIN)) out.close_end(0);
      if (bytes_read > 0 && output.size() < kMaxOutputBytes)
        output.append(block, static_cast<size_t>(bytes_read));
    }
    if (in.ends[1] >= 0 && polled[1].revents != 0) {
      const ssize_t sent = input.empty() ? 0 : write(in.ends[1], input.data(), input.size());
      if (sent > 0) input.remove_prefix(static_cast<size_t>(sent));
      if (input.empty() || (sent < 0 && errno != EINTR && errno != EAGAIN)) in.close_end(1);
    }
  }
  return true;
}

}  // namespace

Result<double> program_reward(const std::string& command, const std::string& input) {
  Pipe in, out;
  if (!in.open() || !out.open())
    return error_of(Error::Kind::kIo, "reward", "cannot create a pipe: {}", std::strerror(errno));
  fcntl(in.ends[1], F_SETFL, O_NONBLOCK);
  const pid_t child = fork();
  if (child < 0)
    return error_of(Error::Kind::kIo, "reward", "cannot start a process: {}", std::strerror(errno));
  if (child == 0) {  // only calls that are safe after fork
    setpgid(0, 0);
    dup2(in.ends[0], 0), dup2(out.ends[1], 1);
    limit(RLIMIT_CPU, kTimeoutSeconds), limit(RLIMIT_AS, kMaxMemoryBytes), limit(RLIMIT_CORE, 0);
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  setpgid(child, child);
  in.close_end(0), out.close_end(1);
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  std::string output;
  const bool in_time = exchange(in, out, input, output);
  sigaction(SIGPIPE, &before, nullptr);
  kill(-child, SIGKILL);  // the child and all processes that it started
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) return 0.0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    return error_of(Error::Kind::kNotFound, "reward", "the command '{}' was not found", command);
  const size_t first = output.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1.0 : 0.0;
  char* end = nullptr;
  const double reward = std::strtod(output.c_str() + first, &end);
  if (end == output.c_str() + first || !std::isfinite(reward))
    return error_at("reward", "the program printed '{}', which is not a number", output.substr(first, 60));
  return reward;
}

}  // namespace makar
