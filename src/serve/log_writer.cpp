#include "serve/log_writer.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <functional>
#include <mutex>
#include <string_view>

namespace makar {

struct LogWriter::State {
  int descriptor = -1;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;
  size_t bytes = 0;
  int64_t dropped = 0;
  bool stopping = false, done = false;
};

namespace {

constexpr auto kShutdownTimeout = std::chrono::seconds(1);
constexpr int kPollMilliseconds = 100;

enum class WriteResult { kWritten, kDropped, kStopped };

// A pipe that polls writable accepts PIPE_BUF bytes without blocking.
WriteResult write_line(int descriptor, std::string_view line, const std::function<bool()>& should_stop) {
  while (!line.empty()) {
    pollfd ready{descriptor, POLLOUT, 0};
    const int polled = ::poll(&ready, 1, kPollMilliseconds);
    if (polled < 0 && errno != EINTR) return WriteResult::kDropped;
    if (polled <= 0) {
      if (should_stop()) return WriteResult::kStopped;
      continue;
    }
    const ssize_t n = ::write(descriptor, line.data(), std::min<size_t>(line.size(), PIPE_BUF));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return WriteResult::kDropped;  // closed, or the disk is full
    line.remove_prefix(static_cast<size_t>(n));
  }
  return WriteResult::kWritten;
}

}  // namespace

LogWriter::LogWriter(int descriptor) : state_(std::make_shared<State>()) {
  state_->descriptor = descriptor;
  thread_ = std::thread([state = state_] { run(state); });
}

LogWriter::~LogWriter() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  const bool done = state_->changed.wait_for(lock, kShutdownTimeout, [&] { return state_->done; });
  lock.unlock();
  if (done)
    thread_.join();
  else
    thread_.detach();
}

void LogWriter::write(const std::string& line) {
  const std::lock_guard lock(state_->mutex);
  if (state_->bytes + line.size() > kMaxBytes) {
    ++state_->dropped;
    return;
  }
  state_->bytes += line.size() + 1;
  state_->lines.push_back(line + "\n");
  state_->changed.notify_all();
}

void LogWriter::run(const std::shared_ptr<State>& state) {
  // Block SIGPIPE: write() to a closed pipe returns an error instead.
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal), sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
  const auto is_stopping = [&] {
    const std::lock_guard lock(state->mutex);
    return state->stopping;
  };
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->stopping || !state->lines.empty(); });
    if (state->lines.empty()) break;
    std::string line = std::move(state->lines.front());
    state->lines.pop_front();
    state->bytes -= line.size();
    const int64_t dropped = state->dropped;
    if (dropped > 0) line = fmt::format("{{\"dropped_log_lines\":{}}}\n", dropped) + line;
    lock.unlock();
    const WriteResult result = write_line(state->descriptor, line, is_stopping);
    lock.lock();
    if (result == WriteResult::kWritten)
      state->dropped -= dropped;
    else
      ++state->dropped;
    if (result == WriteResult::kStopped) break;
  }
  state->done = true;
  state->changed.notify_all();
}

}  // namespace makar
