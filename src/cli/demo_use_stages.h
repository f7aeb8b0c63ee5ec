// The stages of `makar demo` that measure and use the model, and functions that read results of a stage.
#pragma once
#include "cli/demo_run.h"

namespace makar {

constexpr const char* kDemoKinds = "who_did,what_at";

// The objects of a JSONL file; at least one.
Result<std::vector<Json>> read_records(const std::string& path);

// Figures from log.jsonl of a training run.
struct RunFigures {
  std::vector<double> losses, rewards;
  double validation_loss = 0;
};
Result<RunFigures> read_log(const std::string& folder);

struct Accuracy {
  double value = 0, error = 0;
  std::string text() const;  // "81.5 % ± 5.4"
};
// Answers the test questions with a model of the demo's folder; results in `output`.
Result<Accuracy> demo_accuracy(DemoRun& demo, const std::string& model, const std::string& output);

Status demo_evaluate(DemoRun& demo);
Status demo_quantize(DemoRun& demo);
Status demo_look(DemoRun& demo);
Status demo_retrieve(DemoRun& demo);
Status demo_serve(DemoRun& demo);

}  // namespace makar
