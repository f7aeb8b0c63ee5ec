// Large shapes are for real GPUs only.
#pragma once
#include <cstdlib>

#include "kernels/device.h"

namespace makar::test {

// Programs with a simulated GPU (tests/simulated_gpu) set the variable when they start.
inline bool is_real_gpu(const Device& device) { return device.name() == "cuda" && !std::getenv("MAKAR_SIMULATED_GPU"); }

}  // namespace makar::test
