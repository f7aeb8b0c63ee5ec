// Writes lines to a descriptor that may be slow, full or closed: a terminal, a pipe, a file on a full disk.
// Logging never blocks and never fails; lines that cannot be written are counted, and the count is logged
// when writing works again.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace makar {

class LogWriter {
 public:
  static constexpr size_t kMaxBytes = size_t{1} << 20;  // queued; further lines are dropped
  explicit LogWriter(int descriptor);
  // Waits up to one second for queued lines.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  void write(const std::string& line);  // without its newline; from any thread

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;  // shared: a thread blocked in write() is detached and outlives this
  std::thread thread_;
};

}  // namespace makar
