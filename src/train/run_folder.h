// The files of a run folder other than checkpoints and the model: log.jsonl, TensorBoard events, run.json
// with the settings, and at the end report.md with curves.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "train/task.h"
#include "train/tensorboard.h"

namespace makar {

struct StepInfo;

// log.jsonl: one object per step, validation or sample. Resuming drops the lines after the checkpoint.
class RunLog {
 public:
  explicit RunLog(std::string folder) : folder_(std::move(folder)) {}
  Status open(int64_t step);
  Status step(const StepInfo& info);
  Status validation(int64_t step, const Metrics& metrics);
  Status sample(int64_t step, const std::string& text);

 private:
  Status line(const Json& json);
  std::string folder_;
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::optional<EventFile> events_;
};

// run.json of an earlier run in this folder. It is written when a run starts and again when it finishes.
struct EarlierRun {
  bool finished = false;
  Json settings;  // with the identity
};
Result<std::optional<EarlierRun>> earlier_run(const std::string& folder);
Status write_unfinished_run(const std::string& folder, const Json& settings);
// Whether the folder contains weights of a model or an adapter.
bool holds_model(const std::string& folder);
// "learning_rate was 0.001, now 0.0003; ..."; empty when equal.
std::string setting_differences(const Json& before, const Json& now);

// Lock on a run folder, so that two processes cannot write the same checkpoints. Released when the process
// ends.
class RunLock {
 public:
  static Result<RunLock> take(const std::string& folder);
  RunLock(RunLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RunLock& operator=(RunLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~RunLock();

 private:
  explicit RunLock(int fd) : fd_(fd) {}
  int fd_;
};

// A finished run, for the report.
struct RunSummary {
  std::string title;                                       // "GPT-2 shape, 4 layers"
  std::vector<std::pair<std::string, std::string>> facts;  // rows of the table
  std::string sample;
  std::string command;
};

// Writes report.md, loss.svg and one chart per validation metric, and of reward, KL divergence and length if
// training has them, from log.jsonl.
Status write_report(const std::string& folder, const RunSummary& summary);

}  // namespace makar
