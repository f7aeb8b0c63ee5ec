// Large shapes are for real GPUs only.
#pragma once
#include <cstdlib>

#include "kernels/device.h"

namespace makar::test {

// Programs with a simulated GPU (tests/simulated_gpu/runtime.cpp) set the variable when they start.
inline bool is_real_gpu(const Device& device) {
  return device.name() == "cuda" && !std::getenv("MAKAR_TEST_SMALL_SHAPES");
}

}  // namespace makar::test
