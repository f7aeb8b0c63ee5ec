// Distinct C++ types for the storage types of B panels.
#pragma once
#include <cstdint>

#include "kernels/cpu/table.h"

namespace makar::kernels::MAKAR_ISA {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

}  // namespace makar::kernels::MAKAR_ISA
