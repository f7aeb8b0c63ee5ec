// Processor time of the calling thread, which other work on the machine does not change.
#pragma once
#include <ctime>

namespace makar {

inline double cpu_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace makar
