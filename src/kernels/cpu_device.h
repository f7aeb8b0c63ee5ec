// The CPU: host memory, a thread pool and the loops of kernels/cpu.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace makar {

class ThreadPool;

class CpuDevice : public Device {
 public:
  // 0 threads: one per core, including the calling thread.
  explicit CpuDevice(int threads = 0);
  // Uses the caller's thread pool, which must outlive the device.
  explicit CpuDevice(ThreadPool& pool);
  ~CpuDevice() override;
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  std::string name() const override { return "cpu"; }
  Memory& memory() override { return host_memory(); }
  void finish() override {}
  int threads() const override;
  MachineLimits measure_limits() override;
  std::shared_ptr<const kernels::PackedWeight> pack(const kernels::Operand& b, int64_t n, int64_t k) override;
  // The instruction sets that kernels can use here, such as "portable" and "neon"; the last one is the
  // default.
  static std::vector<std::string> instructions();
  // The one that they use; an error if MAKAR_ISA in the environment names none of them.
  static Result<std::string> instructions_in_use();
  // The bytes that pack() allocates.
  static size_t packed_bytes(DType type, int64_t n, int64_t k);

#define MAKAR_KERNEL(entry, arguments) void entry(const kernels::arguments& args) override;
  MAKAR_DEVICE_KERNELS(MAKAR_KERNEL)
#undef MAKAR_KERNEL

 private:
  std::unique_ptr<ThreadPool> own_pool_;
  ThreadPool* pool_;
};

}  // namespace makar
