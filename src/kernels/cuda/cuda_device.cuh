// One NVIDIA GPU: its memory, a single stream for all work, and the kernels of kernels/cuda.
#pragma once
#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kernels/cuda_device.h"

namespace makar {

class Cublas;
class HostBuffers;

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

  // Between these calls, blocks are allocated for a recording, which reuses them among its kernels. What is copied to them from
  // the host is read now; each run of the recording copies it again. end_recording() returns the blocks; they are not used by
  // anything else until release(). Tensors may outlive the recording.
  using Blocks = std::unordered_set<std::byte*>;
  void begin_recording();
  Blocks end_recording();
  void release(const Blocks& blocks);

 private:
  std::byte* take_block(size_t bytes);
  std::byte* take_constant(size_t bytes);
  std::byte* take_from_all(size_t size);
  std::byte* allocate_new(size_t size);
  std::byte* take_cached(std::multimap<size_t, std::byte*>& from, size_t size);
  void trim();

  cudaStream_t stream_;
  bool poison_;
  std::mutex mutex_;
  std::multimap<size_t, std::byte*> free_;        // by size
  std::unordered_map<std::byte*, size_t> sizes_;  // of live blocks and of recordings' blocks
  bool recording_ = false;
  cudaStream_t copies_ = nullptr;                      // for constants of a recording
  std::multimap<size_t, std::byte*> recording_free_;   // by size
  Blocks recording_blocks_;                            // of the recording that is being made
  std::unordered_map<std::byte*, bool> recorded_;      // blocks of all recordings; whether a tensor uses them
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(cudaStream_t stream);  // owns `stream`
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::string name() const override { return "cuda"; }
  Memory& memory() override { return memory_; }
  void finish() override;
  int threads() const override { return 1; }
  MachineLimits measure_limits() override;
  // CUDA graphs, unless MAKAR_GRAPHS is 0 in the environment.
  bool records_work() const override;
  std::unique_ptr<RecordedWork> record(std::function<void()> work) override;
  std::unique_ptr<PendingCopy> copy_later(const std::byte* from, size_t bytes) override;
  std::shared_ptr<const kernels::PackedWeight> pack(const kernels::Operand& b, int64_t n, int64_t k) override;
  std::vector<std::shared_ptr<const kernels::PackedWeight>> pack_together(std::span<const kernels::Operand> weights, int64_t n,
                                                                          int64_t k) override;
  int64_t rows_per_tile(int64_t routed_rows, int64_t experts) const override;

#define MAKAR_KERNEL(entry, arguments) void entry(const kernels::arguments& args) override;
  MAKAR_DEVICE_KERNELS(MAKAR_KERNEL)
#undef MAKAR_KERNEL

 private:
  struct DestroyStream {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  const std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream> owned_;  // destroyed after what uses it
  cudaStream_t stream_;
  CudaMemory memory_;
  std::unique_ptr<Cublas> cublas_;  // opened by the first product that can use it
  bool cublas_tried_ = false;
  std::shared_ptr<HostBuffers> host_buffers_;
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
