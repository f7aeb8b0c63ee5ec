#include "base/nearest.h"
#include "kernels/cpu_device.h"
#include "kernels/cuda_device.h"
#include "kernels/fence_device.h"

namespace makar {

Result<std::unique_ptr<Device>> open_device(const std::string& name, int threads) {
  if (name == "cpu") return std::unique_ptr<Device>(std::make_unique<CpuDevice>(threads));
  if (name == "fence") return std::unique_ptr<Device>(std::make_unique<FenceDevice>(threads));
  if (name == "cuda") return open_cuda_device();
  const std::vector<std::string> known = {"cpu", "cuda", "fence"};
  return error_at("device", "unknown device '{}'{}; known: cpu, cuda, fence", name,
                  did_you_mean(name, known));
}

}  // namespace makar
