// One run of a fine-tuning job's process: waits for the folder of the run, starts the process, passes its log
// on as events, and stops it at the limits of time and disk space.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "serve/tuning/tuning_options.h"

namespace makar {

// kEndedEarly: the process was stopped by a signal from outside, and can continue. kStopped: by request.
// kWaiting: it cannot run now, because the base is missing or has changed, or the disk is full.
enum class RunEnd { kFinished, kFailed, kEndedEarly, kStopped, kWaiting };
struct RunOutcome {
  RunEnd end;
  std::string error = "";  // of kFailed and kWaiting
};

class TuningRun {
 public:
  // Waits up to the given time; returns whether the run must stop: the server stops, or the job has ended.
  using Wait = std::function<bool(std::chrono::milliseconds)>;
  TuningRun(TuningRecords& records, const TuningOptions& options, BaseIdentities& identities, std::string id,
            Wait wait);
  RunOutcome run();

 private:
  RunOutcome run_process();
  Result<std::vector<std::string>> prepare();
  std::string without_paths(std::string text) const;
  RunOutcome watch(int process);
  RunOutcome outcome(int status) const;
  void report_log();
  void report_line(const Json& line);
  std::string exceeded_limit() const;  // empty: none
  double seconds() const;              // of all processes of this job

  TuningRecords& records_;
  const TuningOptions& options_;
  BaseIdentities& identities_;
  const std::string id_;
  const JobFolder folder_;
  const Wait wait_;
  TuningRecord record_;
  TuningBase base_;
  std::chrono::steady_clock::time_point start_, saved_;
  uint64_t log_inode_ = 0;             // of the log that is read
  uint64_t log_bytes_ = 0;             // read so far
  int64_t tokens_ = 0;                 // in these bytes
  int64_t step_ = 0, validation_ = 0;  // the last ones with events
  bool stopped_ = false;               // by request
  std::string error_;                  // why a limit ended the process
};

}  // namespace makar
