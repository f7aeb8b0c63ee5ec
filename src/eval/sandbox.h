// Runs a program that a model wrote. Linux only: Landlock (5.13 or newer) lets it read system libraries and
// write in its own folder, a seccomp filter denies sockets, signals, new processes, tracing, watching folders
// and changes of modes, owners, times and attributes of files; limits bound time, memory, threads (256), open
// files (32) and the number and sizes of files.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"

namespace makar {

struct ProgramLimits {
  double seconds = 10;                // wall time, and CPU time; to compile, at least 60
  int64_t memory = int64_t{2} << 30;  // bytes of address space; of data for JavaScript
  int64_t file = int64_t{16} << 20;   // bytes of one written file
  int64_t output = 0;                 // bytes of its output that are returned; 0: none
  int64_t disk = int64_t{512} << 20;  // bytes of all files in its folder; checked every tenth of a second
};
struct ProgramOutcome {
  bool passed = false;  // ran to its end with exit status 0; C++: main returned 0
  bool timed_out = false;
  bool compiled = true;
  std::string output;  // of the program and the compiler: standard output and error
};

std::vector<std::string> program_languages();  // python, javascript, cpp
// Errors: kUnsupported without Landlock or seccomp, kNotFound without the interpreter or compiler, kIo if the
// program's folder cannot be made or removed, or no process can be started. What the program does is an
// outcome, never an error.
Result<ProgramOutcome> run_program(const std::string& language, const std::string& source,
                                   const ProgramLimits& limits = {});

// Runs the smallest program. Error: as of run_program, or kUnsupported with what the language printed, if the
// program fails: then no program can pass.
Status check_language(const std::string& language, const ProgramLimits& limits = {});

}  // namespace makar
