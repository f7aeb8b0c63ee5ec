#include "base/nearest.h"
#include "base/quote.h"
#include "kernels/cpu_device.h"
#include "kernels/cuda_device.h"
#include "kernels/fence_device.h"

namespace makar {

const std::vector<std::string>& device_names() {
  static const std::vector<std::string> names = {"cpu", "cuda", "fence"};
  return names;
}

Result<std::unique_ptr<Device>> open_device(const std::string& name, int threads) {
  if (const auto isa = CpuDevice::instructions_in_use(); !isa.ok()) return isa.error();
  if (name == "cpu") return std::unique_ptr<Device>(std::make_unique<CpuDevice>(threads));
  if (name == "fence") return std::unique_ptr<Device>(std::make_unique<FenceDevice>(threads));
  if (name == "cuda") return open_cuda_device();
  return error_at("device", "unknown device {}{}; expected one of: {}", quote(name),
                  did_you_mean(name, device_names()), fmt::join(device_names(), ", "));
}

}  // namespace makar
