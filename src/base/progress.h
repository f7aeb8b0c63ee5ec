// A progress display on standard error: one line redrawn on a terminal, a plain line every few seconds in a
// pipe.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace makar {

class Progress {
 public:
  explicit Progress(bool quiet = false);
  ~Progress();
  // Shows `done` of `total` under a name, or `done` alone when the total is unknown (0); `note` is appended.
  // Cheap to call often. The line ends when all is done.
  void show(const std::string& name, uint64_t done, uint64_t total, const std::string& note = "");

 private:
  using Clock = std::chrono::steady_clock;
  bool quiet_, terminal_;
  std::string name_;
  Clock::time_point begin_, last_;
  bool open_ = false;      // an unfinished line is on the terminal
  bool complete_ = false;  // the last call under this name showed all
};

}  // namespace makar
