// One NVIDIA GPU: its memory, a single stream for all work, and the kernels of kernels/cuda.
#pragma once
#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <unordered_map>

#include "kernels/cuda_device.h"

namespace makar {

class Cublas;

// GPU memory blocks, cached for reuse because cudaMalloc synchronises the device. A freed block can be reused
// immediately: kernels and copies run in the order of one stream.
class CudaMemory : public Memory {
 public:
  // With MAKAR_POISON in the environment, every block is filled with NaN on allocation, for tests: reading
  // uninitialised memory shows in the results.
  explicit CudaMemory(cudaStream_t stream);
  ~CudaMemory() override;

  std::byte* allocate(size_t bytes) override;
  void deallocate(std::byte* block, size_t bytes) override;
  void copy_in(std::byte* to, const std::byte* host, size_t bytes) override;
  void copy_out(std::byte* host, const std::byte* from, size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override;
  void zero(std::byte* block, size_t bytes) override;
  int64_t capacity() const override;

 private:
  std::byte* take_block(size_t bytes);
  void trim();

  cudaStream_t stream_;
  bool poison_;
  std::mutex mutex_;
  std::multimap<size_t, std::byte*> free_;        // by size
  std::unordered_map<std::byte*, size_t> sizes_;  // of live blocks
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(cudaStream_t stream);
  ~CudaDevice() override;

  std::string name() const override { return "cuda"; }
  Memory& memory() override { return memory_; }
  void finish() override;
  int threads() const override { return 1; }
  MachineLimits measure_limits() override;
  std::shared_ptr<const kernels::PackedWeight> pack(const kernels::Operand& b, int64_t n, int64_t k) override;

#define MAKAR_KERNEL(entry, arguments) void entry(const kernels::arguments& args) override;
  MAKAR_DEVICE_KERNELS(MAKAR_KERNEL)
#undef MAKAR_KERNEL

 private:
  cudaStream_t stream_;
  CudaMemory memory_;
  std::unique_ptr<Cublas> cublas_;  // opened by the first product that can use it
  bool cublas_tried_ = false;
};

// Device memory for the duration of one kernel entry.
template <class T>
class CudaScratch {
 public:
  CudaScratch(Memory& memory, int64_t count)
      : memory_(memory),
        bytes_(static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(T)),
        block_(memory.allocate(bytes_)) {}
  ~CudaScratch() { memory_.deallocate(block_, bytes_); }
  CudaScratch(const CudaScratch&) = delete;
  CudaScratch& operator=(const CudaScratch&) = delete;
  T* data() const { return reinterpret_cast<T*>(block_); }

 private:
  Memory& memory_;
  size_t bytes_;
  std::byte* block_;
};

}  // namespace makar
