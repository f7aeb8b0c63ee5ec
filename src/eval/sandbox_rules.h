// What a program in the sandbox may do: Landlock restricts files, a seccomp filter restricts system calls.
// Both hold for the calling process and the programs it executes, and cannot be undone.
#pragma once
#include <linux/filter.h>

#include <vector>

namespace makar {

// The version of Landlock in this kernel; 0: none.
int landlock_version();

// Reading below the folders of the system's programs and libraries; everything below `folder`. `version` is
// that of Landlock.
bool restrict_files(const char* folder, int version);

// A filter that denies sockets, signals, tracing, changes of other processes, memory outside of the limits,
// and what Landlock does not check: changes of the mode, owner, times and attributes of files, opening files
// for neither reading nor writing, and watching folders. `compiles`: allows new processes and chmod, which
// compilers need.
class CallFilter {
 public:
  CallFilter(int version, bool compiles);
  bool install() const;  // allocates no memory

 private:
  std::vector<sock_filter> code_;
};

// Gives up the capabilities of root.
bool drop_capabilities();

}  // namespace makar
