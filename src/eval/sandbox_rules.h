// What a program in the sandbox may do: Landlock restricts files, a seccomp filter restricts system calls.
// Both hold for the calling process and the programs it executes, and cannot be undone.
#pragma once

namespace makar {

// The version of Landlock in this kernel; 0: none.
int landlock_version();

// Reading below the folders of the system's programs and libraries; everything below `folder`. `version` is
// that of Landlock.
bool restrict_files(const char* folder, int version);

// Denies sockets, signals, tracing, changes of other processes, memory outside of the limits, and the changes
// of files that Landlock does not check: mode, owner, times and attributes. `compiles`: allows new processes
// and chmod, which compilers need.
bool restrict_calls(int version, bool compiles);

// Gives up the capabilities of root.
bool drop_capabilities();

}  // namespace makar
