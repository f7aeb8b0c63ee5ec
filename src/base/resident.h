// How much memory this process holds, as the system counts it.
#pragma once
#include <cstdint>

namespace makar {

struct ResidentMemory {
  int64_t now = 0, peak = 0;  // bytes, pages of mapped files included; 0 where the system does not say
};
ResidentMemory resident_memory();

}  // namespace makar
