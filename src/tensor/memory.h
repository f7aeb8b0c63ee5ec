// Where tensor data is stored: on the host, or on a device that the host cannot address. A tensor holds a
// block of one Memory; only Tensor::host() and Tensor::to(Memory&) copy between memories.
#pragma once
#include <cstddef>

#include "base/resident.h"

namespace makar {

class Memory {
 public:
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Allocates at least `bytes` bytes, aligned to 64; throws std::bad_alloc if it cannot.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void deallocate(std::byte* block, size_t bytes) = 0;
  // Copies between the host and this memory, and within this memory. Source and destination must not overlap.
  // Copies are ordered with the device's kernels; copy_in and copy_out return when the host buffer may be
  // reused or read.
  virtual void copy_in(std::byte* to, const std::byte* host, size_t bytes) = 0;
  virtual void copy_out(std::byte* host, const std::byte* from, size_t bytes) = 0;
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual void zero(std::byte* block, size_t bytes) = 0;

  // Bytes that this memory has in total, for tensors and everything else.
  virtual int64_t capacity() const { return memory_limit(); }
  // Whether the host may dereference addresses of this memory.
  bool is_host() const { return is_host_; }

 protected:
  explicit Memory(bool is_host) : is_host_(is_host) {}

 private:
  const bool is_host_;
};

// Host memory, recycled by the block pool (block_pool.h).
Memory& host_memory();

}  // namespace makar
