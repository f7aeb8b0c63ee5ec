// The CPU's kernels on memory that is inaccessible outside kernels and copies, to simulate a device with
// separate memory. Code above kernels/ that dereferences device memory crashes with a segmentation fault. For
// tests, single-threaded. In the environment, MAKAR_FENCE_MB limits its memory, and MAKAR_FENCE_KERNELS=N
// makes kernel N and all later kernels fail, as on a lost device.
#pragma once
#include <map>
#include <vector>

#include "kernels/cpu_device.h"

namespace makar {

// An arena of inaccessible pages. open() and close() nest; between them the pages are accessible.
class FenceMemory final : public Memory {
 public:
  FenceMemory();
  ~FenceMemory() override;
  std::byte* allocate(size_t bytes) override;
  void deallocate(std::byte* block, size_t bytes) override;
  void copy_in(std::byte* to, const std::byte* host, size_t bytes) override;
  void copy_out(std::byte* host, const std::byte* from, size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override;
  void zero(std::byte* block, size_t bytes) override;

  void open();
  void close();
  bool is_open() const { return depth_ > 0; }

 private:
  void protect(size_t begin, size_t end, int rights);

  std::byte* base_ = nullptr;
  size_t limit_;
  size_t top_ = 0;                                  // high-water mark in bytes, whole pages
  size_t live_ = 0;                                 // live blocks
  std::map<size_t, std::vector<std::byte*>> free_;  // by size class
  int depth_ = 0;
};

class FenceDevice final : public CpuDevice {
 public:
  explicit FenceDevice(int threads = 0);
  std::string name() const override { return "fence"; }
  Memory& memory() override { return memory_; }
  std::shared_ptr<const kernels::PackedWeight> pack(const kernels::Operand& b, int64_t n, int64_t k) override;

#define MAKAR_KERNEL(entry, arguments) void entry(const kernels::arguments& args) override;
  MAKAR_DEVICE_KERNELS(MAKAR_KERNEL)
#undef MAKAR_KERNEL

 private:
  void count_kernel();

  FenceMemory memory_;
  uint64_t kernels_left_;  // 0: unlimited
};

}  // namespace makar
