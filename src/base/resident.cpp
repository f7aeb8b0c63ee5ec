#include "base/resident.h"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <string>

namespace makar {

ResidentMemory resident_memory() {
  ResidentMemory out;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    int64_t* to = line.starts_with("VmRSS:") ? &out.now : line.starts_with("VmHWM:") ? &out.peak : nullptr;
    const size_t digit = line.find_first_of("0123456789");
    if (!to || digit == std::string::npos) continue;
    std::from_chars(line.data() + digit, line.data() + line.size(), *to);
    *to *= 1024;
  }
  return out;
}

int64_t machine_memory() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE); }

}  // namespace makar
