// Progress of a training run on standard error.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>

#include "cli/run.h"
#include "cli/train_run.h"
#include "ops/linear.h"

namespace makar {
namespace {

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::lround(std::min(seconds, 1e9)));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string rate_text(double rate) {
  return rate >= 1e6   ? fmt::format("{:.1f}M", rate / 1e6)
         : rate >= 1e3 ? fmt::format("{:.1f}k", rate / 1e3)
                       : fmt::format("{:.0f}", rate);
}

// `width`: leave out the least important parts of a longer line; 0 for no limit.
std::string step_line(const StepInfo& i, double peak, size_t width = 0) {
  const std::string head = fmt::format("step {}/{} | loss {:.3f}", i.step, i.total, i.loss);
  std::string metrics;
  if (i.tokens_are_targets) metrics += fmt::format(" | ppl {:.1f}", std::exp(std::min(i.loss, 50.0)));
  for (const auto& [name, value] : i.metrics)
    metrics += value == 0 ? fmt::format(" | {} 0.0", name) : fmt::format(" | {} {:.4g}", name, value);
  const std::string speed = fmt::format(" | {} tok/s", rate_text(static_cast<double>(i.tokens) / i.seconds));
  // In the order of the line, each with its importance.
  const std::pair<int, std::string> parts[] = {
      {4, metrics},
      {2, fmt::format(" | norm {:.2f}", i.norm)},
      {1, fmt::format(" | lr {:.1e}", i.lr)},
      {1, fmt::format(" | {:.1f} ms", i.seconds * 1e3)},
      {3, speed},
      {0, peak > 0 ? fmt::format(" | {:.0f}% peak", 100 * i.flops / i.seconds / peak) : ""},
      {5, " | eta " + clock_text(i.eta)}};
  for (int min = 0;; ++min) {
    std::string out = head;
    for (const auto& [importance, text] : parts)
      if (importance >= min) out += text;
    if (width == 0 || out.size() <= width || min == 5) return out;
  }
}

// Progress of a run: a redrawn bar on a terminal; otherwise plain lines, limited only if COLUMNS is set.
class Printer {
 public:
  Printer(bool quiet, int64_t every, double peak)
      : quiet_(quiet), terminal_(isatty(STDERR_FILENO)), every_(every), peak_(peak) {}
  void step(const StepInfo& i) {
    if (quiet_) return;
    if (i.seconds > 0) peak_ = std::max(peak_, i.flops / i.seconds);  // the measured peak may be too low
    if (!terminal_) {
      if (i.step % every_ == 0 || i.step == 1 || i.step == i.total)
        fmt::print(stderr, "{}\n", step_line(i, peak_, std::getenv("COLUMNS") ? columns_ : 0));
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(100) && i.step < i.total) return;
    last_ = now;
    constexpr size_t kBar = 20, kMargin = kBar + 4;  // characters of the bar, and with brackets and blanks
    const size_t filled = kBar * static_cast<size_t>(i.step) / static_cast<size_t>(i.total);
    fmt::print(stderr, "\r\033[K[{}{}] {}", std::string(filled, '='), std::string(kBar - filled, ' '),
               step_line(i, peak_, columns_ > kMargin ? columns_ - kMargin : 1));
    std::fflush(stderr);
    bar_open_ = true;
  }
  void line(const std::string& text) {
    if (quiet_) return;
    end_line();
    fmt::print(stderr, "{}\n", text);
  }
  // Keeps the progress bar and starts a new line.
  void end_line() {
    if (bar_open_) fmt::print(stderr, "\n");
    bar_open_ = false;
  }
  ~Printer() { end_line(); }

 private:
  bool quiet_, terminal_;
  int64_t every_;
  double peak_;
  bool bar_open_ = false;
  size_t columns_ = terminal_width();
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace

LoopEvents printed_events(const TrainCommon& common, double peak, std::function<void()>& end_line) {
  auto printer = std::make_shared<Printer>(common.quiet, common.loop.logging_steps, peak);
  LoopEvents e;
  end_line = [printer] { printer->end_line(); };
  e.step = [printer](const StepInfo& i) { printer->step(i); };
  e.validation = [printer](int64_t step, const Metrics& metrics) {
    std::string text = fmt::format("step {} | validation", step);
    for (const auto& [name, value] : metrics) text += fmt::format(" | {} {:.4f}", name, value);
    printer->line(text);
  };
  e.sample = [printer](int64_t step, const std::string& text) {
    printer->line(fmt::format("step {} | sample:\n{}", step, text));
  };
  e.say = [printer](const std::string& text) { printer->line(text); };
  return e;
}

double measure_peak(Device& device) {
  constexpr int64_t kMatrixSize = 512;
  Context ctx{device};
  const Tensor x = Tensor::full({kMatrixSize, kMatrixSize}, 0.5f).to(device.memory()),
               w = Tensor::full({kMatrixSize, kMatrixSize}, 0.25f).to(device.memory());
  double best = 0;
  for (int i = 0; i < 6; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ops::linear(ctx, x, w);
    device.finish();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2.0 * static_cast<double>(kMatrixSize * kMatrixSize * kMatrixSize) / seconds);
  }
  return best;
}

}  // namespace makar
