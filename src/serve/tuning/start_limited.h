// Starts the process of a fine-tuning job.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace makar {

// Starts a program in its own process group, with lower priority, a limit on allocated memory, and its output
// in `log`; it receives SIGTERM when the parent process ends. Returns the process id.
Result<int> start_limited(const std::vector<std::string>& command, const std::string& log, int64_t memory);

}  // namespace makar
