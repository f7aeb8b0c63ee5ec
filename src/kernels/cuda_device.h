// NVIDIA GPUs. Builds without CUDA use the stub in kernels/no_cuda.
#pragma once
#include <memory>

#include "kernels/device.h"

namespace makar {

Result<std::unique_ptr<Device>> open_cuda_device();

}  // namespace makar
