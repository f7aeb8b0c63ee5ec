// What connects a fine-tuning job with its process: the base under a name that stays the same, and the
// process of an earlier server.
#pragma once
#include <chrono>
#include <functional>
#include <optional>

#include "serve/tuning/job_folder.h"

namespace makar {

// Links the model at `path` (a file or a folder) into the folder of a job. Returns its path as the job's
// process gives it, relative to that folder: a moved model has the same.
Result<std::string> link_base(const std::string& job_folder, const std::string& path);

// The pid of the process whose /proc/PID/stat was copied to `stat_file`, if it still runs.
std::optional<int> running_process(const std::string& stat_file);

// Waits until no process of an earlier server uses the folder of a job; it got SIGTERM when that server
// ended. Kills it after `patience`, or at once if the job `is_over`. False: `stopping`, or it does not end.
bool end_earlier_process(const JobFolder& folder, std::chrono::milliseconds patience,
                         const std::function<bool()>& is_over, const std::function<bool()>& stopping);

}  // namespace makar
