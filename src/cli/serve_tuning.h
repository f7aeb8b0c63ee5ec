// The options of `makar serve` for fine-tuning jobs, and the commands that the jobs run.
#pragma once
#include "base/options.h"
#include "serve/log_writer.h"
#include "serve/model_registry.h"
#include "serve/tuning/tuning_options.h"

namespace makar {

struct ServeTuningOptions {
  bool accept = false;        // --fine-tuning
  int64_t threads = 0;        // 0: half of the cores
  int64_t memory = 8192;      // MiB
  int64_t disk = 16384;       // MiB
  double max_minutes = 1440;  // 0: no limit

  void declare(Options& options);
  Status check() const;
  // Without --fine-tuning, options without a command. The registry and the log must outlive the result.
  TuningOptions options(ModelRegistry& registry, LogWriter& log) const;
};

}  // namespace makar
