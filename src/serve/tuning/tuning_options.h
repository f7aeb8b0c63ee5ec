// How a server trains and serves fine-tuned models; set by the program (cli/serve_tuning.h).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "serve/tuning/tuning_records.h"

namespace makar {

struct TuningBase {
  std::string name, path;  // of a served model
};

struct TuningOptions {
  // The served model that a job names ("": the first); an error rejects the job.
  std::function<Result<TuningBase>(const std::string& model)> base;
  // The command line of a job's process.
  std::function<std::vector<std::string>(const Json& job, const TuningBase& base, const TuningFiles& files)>
      command;
  // A hash of all bytes of a model.
  std::function<Result<std::string>(const std::string& path)> identity;
  // Serves the model of a job whose adapter is in `folder`, until it is unpublished.
  std::function<Status(const std::string& model, const TuningBase& base, const std::string& folder)> publish;
  std::function<void(const std::string& model)> unpublish;
  std::function<void(const std::string& line)> log;
  int64_t memory = int64_t{8} << 30;  // bytes that a process may allocate
  int64_t disk = int64_t{16} << 30;   // bytes of a job's checkpoints, model and logs
  double max_seconds = 0;             // that the process of a job may run, restarts included; 0: no limit
  TuningLimits limits;
};

}  // namespace makar
