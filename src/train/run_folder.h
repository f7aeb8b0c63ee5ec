// What a run leaves in its folder beside checkpoints and the model: log.jsonl, TensorBoard events, and at the
// end report.md with curves, and run.json to repeat it from.
#pragma once
#include <optional>
#include <string>

#include "train/task.h"
#include "train/tensorboard.h"

namespace makar {

struct StepInfo;

// log.jsonl: one object a step, a validation or a sample. On resuming, lines past the checkpoint are dropped.
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

// A finished run, for the report.
struct RunSummary {
  std::string title;                                       // "GPT-2 shape, 4 layers"
  std::vector<std::pair<std::string, std::string>> facts;  // rows of the table
  std::string sample;
  std::string command;
};

// report.md, loss.svg and validation.svg from log.jsonl.
Status write_report(const std::string& folder, const RunSummary& summary);

}  // namespace makar
