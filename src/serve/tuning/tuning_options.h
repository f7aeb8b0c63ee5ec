// How a server trains and serves fine-tuned models; set by the program (cli/serve_tuning.h).
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "serve/tuning/tuning_records.h"

namespace makar {

struct TuningBase {
  std::string name, path;  // of a served model
};

// The model of a job.
struct TunedModel {
  std::string name;
  TuningBase base;
  std::string folder;             // of the adapter
  std::function<Status()> check;  // called before it is loaded: whether the base is still the same
};

struct TuningOptions {
  // The served model that a job names ("": the first); an error rejects the job.
  std::function<Result<TuningBase>(const std::string& model)> base;
  // The command line of a job's process, which runs in the folder of the job; so are the paths.
  std::function<std::vector<std::string>(const Json& job, const TuningBase& base, const TuningFiles& files)>
      command;
  HashModel identity;
  // Serves a model until it is unpublished.
  std::function<Status(const TunedModel& model)> publish;
  std::function<void(const std::string& model)> unpublish;
  std::function<void(const std::string& line)> log;
  int64_t memory = int64_t{8} << 30;  // bytes that a process may allocate
  int64_t disk = int64_t{16} << 30;   // bytes of a job's checkpoints, model and logs
  double max_seconds = 0;             // that the process of a job may run, restarts included; 0: no limit
  std::chrono::milliseconds stop_time{20000};   // for a checkpoint; then a process is killed
  std::chrono::milliseconds retry_time{60000};  // after which a job that could not run is tried again
  TuningLimits limits;
};

}  // namespace makar
