// A process in the sandbox: started with its limits, watched, and ended with the processes that it started.
#pragma once
#include <sys/resource.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "eval/sandbox.h"

namespace makar {

struct Process {
  std::string program;
  std::vector<std::string> arguments;
  std::string folder;
  int memory_limit = RLIMIT_AS;
  bool compiles = false;
  int output = -1;  // file descriptor of its output; -1: discarded
};
struct ProcessResult {
  bool success = false, timed_out = false, stopped = false;
};

// Errors: kIo if no process can be started, kUnsupported if it cannot be restricted.
Result<ProcessResult> run_process(const Process& process, const ProgramLimits& limits);

}  // namespace makar
