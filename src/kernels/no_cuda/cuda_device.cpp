#include "kernels/cuda_device.h"

namespace makar {

Result<std::unique_ptr<Device>> open_cuda_device() {
  return error_of(Error::Kind::kUnsupported, "device",
                  "this program is built without CUDA; use the device 'cpu'");
}

}  // namespace makar
