// The resident memory of this process, as the kernel counts it, and the memory of the machine.
#pragma once
#include <cstdint>

namespace makar {

struct ResidentMemory {
  int64_t now = 0, peak = 0;  // bytes, including pages of mapped files; 0 where the system does not report it
};
ResidentMemory resident_memory();
int64_t machine_memory();  // bytes

}  // namespace makar
