// Distinct C++ types for the storage types of B panels.
#pragma once
#include <cstdint>

namespace makar::kernels::MAKAR_ISA {

struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};

}  // namespace makar::kernels::MAKAR_ISA
