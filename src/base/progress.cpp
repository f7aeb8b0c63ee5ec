#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace makar {

Progress::Progress(bool quiet)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO)), begin_(Clock::now()), last_(begin_) {}

Progress::~Progress() {
  if (open_) fmt::print(stderr, "\n");
}

void Progress::show(const std::string& name, uint64_t done, uint64_t total, const std::string& note) {
  if (quiet_) return;
  const auto now = Clock::now();
  const bool new_name = name != name_;
  if (new_name) {
    if (open_) fmt::print(stderr, "\n");
    name_ = name, begin_ = now, open_ = false;
  }
  const bool complete = total > 0 && done >= total;
  if (!new_name && complete && complete_) return;  // shown already
  complete_ = complete;
  // A terminal is redrawn ten times per second; a pipe gets one line every five seconds.
  if (!new_name &&
      now - last_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000)) &&
      !complete)
    return;
  last_ = now;
  if (total == 0) {
    const auto* redraw = terminal_ ? "\r\033[K" : "";
    fmt::print(stderr, "{}{} {}{}{}{}", redraw, name, done, note.empty() ? "" : " | ", note,
               terminal_ ? "" : "\n");
    open_ = terminal_;
    return;
  }
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double seconds_left = share > 0.01 && share < 1 ? seconds * (1 - share) / share : 0;
  const std::string eta = seconds_left > 0
                              ? fmt::format(" | eta {}:{:02}", static_cast<int>(seconds_left) / 60,
                                            static_cast<int>(seconds_left) % 60)
                              : "";
  if (!terminal_) {
    fmt::print(stderr, "{} {:.0f}% | {} of {}{}{}{}\n", name, share * 100, done, total,
               note.empty() ? "" : " | ", note, eta);
    return;
  }
  constexpr size_t kBarWidth = 30;
  const auto filled = static_cast<size_t>(share * kBarWidth);
  fmt::print(stderr, "\r\033[K{:<8} [{}{}] {:3.0f}%{}{}{}", name, std::string(filled, '='),
             std::string(kBarWidth - filled, ' '), share * 100, note.empty() ? "" : " | ", note, eta);
  open_ = !complete;
  if (complete) fmt::print(stderr, "\n");
}

}  // namespace makar
