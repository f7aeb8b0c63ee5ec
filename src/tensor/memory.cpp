#include "tensor/memory.h"

#include <cstring>

#include "tensor/block_pool.h"

namespace makar {
namespace {

class HostMemory final : public Memory {
 public:
  HostMemory() : Memory(true) {}
  std::byte* allocate(size_t bytes) override { return BlockPool::shared().allocate(bytes); }
  void deallocate(std::byte* block, size_t bytes) override { BlockPool::shared().deallocate(block, bytes); }
  void copy_in(std::byte* to, const std::byte* host, size_t bytes) override { copy(to, host, bytes); }
  void copy_out(std::byte* host, const std::byte* from, size_t bytes) override { copy(host, from, bytes); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void zero(std::byte* block, size_t bytes) override {
    if (bytes > 0) std::memset(block, 0, bytes);
  }
};

}  // namespace

Memory& host_memory() {
  static HostMemory* memory = new HostMemory;  // never destroyed: tensors may outlive every static
  return *memory;
}

}  // namespace makar
