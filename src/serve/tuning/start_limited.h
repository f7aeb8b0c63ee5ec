// Starts the process of a fine-tuning job.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace makar {

struct ProcessSettings {
  std::string folder;  // where it runs
  std::string output;  // the file that gets its output
  std::string stat;    // the file that gets a copy of its /proc/PID/stat, for later servers
  int64_t memory = 0;  // bytes that it may allocate
};
// Keeps space for a last message at the end of the file; an error if the disk is full.
Status reserve_output(const std::string& path);
// Whether an errno value, or the text of an error, means that the disk is full.
bool is_disk_full(int error_number);
bool is_disk_full(const std::string& message);

// Starts a program in its own process group, with lower priority; it receives SIGTERM when the parent process
// ends. Returns the process id.
Result<int> start_limited(const std::vector<std::string>& command, const ProcessSettings& settings);

}  // namespace makar
