// Pinned host memory for copies from the GPU, with an event each, kept for reuse.
#pragma once
#include <cuda_runtime.h>

#include <vector>

#include "kernels/cuda/launch.cuh"

namespace makar {

class HostBuffers {
 public:
  struct Buffer {
    std::byte* data = nullptr;
    size_t size = 0;
    cudaEvent_t done = nullptr;
  };

  HostBuffers() = default;
  ~HostBuffers() {
    for (const Buffer& b : free_) cudaFreeHost(b.data), cudaEventDestroy(b.done);
  }
  HostBuffers(const HostBuffers&) = delete;
  HostBuffers& operator=(const HostBuffers&) = delete;

  Buffer take(size_t bytes) {
    for (size_t i = 0; i < free_.size(); ++i)
      if (free_[i].size >= bytes) {
        const Buffer found = free_[i];
        free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
        return found;
      }
    Buffer made;
    made.size = std::max<size_t>(bytes, 4096);
    cuda_check(cudaMallocHost(reinterpret_cast<void**>(&made.data), made.size), "cudaMallocHost");
    cuda_check(cudaEventCreateWithFlags(&made.done, cudaEventDisableTiming), "cudaEventCreate");
    return made;
  }
  void give_back(const Buffer& buffer) { free_.push_back(buffer); }

 private:
  std::vector<Buffer> free_;
};

}  // namespace makar
