#include "kernels/cpu/scratch.h"

#include <utility>

#include "tensor/block_pool.h"

namespace makar::kernels {
namespace {

constexpr int kKeptBuffers = 3;
constexpr size_t kMaxKeptBytes = size_t{128} << 10;  // of one buffer

struct Buffer {
  std::byte* data;
  size_t bytes;
};
// Without a destructor, so that buffers which are freed late in the life of a thread find it intact.
thread_local constinit Buffer kept[kKeptBuffers] = {};
thread_local constinit bool ended = false;

struct AtThreadExit {
  ~AtThreadExit() {
    ended = true;
    for (Buffer& b : kept) {
      if (b.data) BlockPool::shared().deallocate(b.data, b.bytes);
      b = {};
    }
  }
  void arm() {}
};
thread_local AtThreadExit at_thread_exit;

}  // namespace

Scratch::Scratch(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
  if (bytes_ == 0) return;
  Buffer* best = nullptr;
  for (Buffer& b : kept)
    if (b.bytes >= bytes_ && (!best || b.bytes < best->bytes)) best = &b;
  if (best) {
    const Buffer taken = std::exchange(*best, {});
    data_ = taken.data, bytes_ = taken.bytes;
  } else {
    data_ = BlockPool::shared().allocate(bytes_);
  }
}

// Keeps the largest buffers.
Scratch::~Scratch() {
  if (!data_) return;
  if (BlockPool::kRecyclesSmall && !ended && bytes_ <= kMaxKeptBytes) {
    at_thread_exit.arm();
    Buffer* smallest = &kept[0];
    for (Buffer& b : kept)
      if (b.bytes < smallest->bytes) smallest = &b;
    if (bytes_ > smallest->bytes) std::swap(data_, smallest->data), std::swap(bytes_, smallest->bytes);
  }
  if (data_) BlockPool::shared().deallocate(data_, bytes_);
}

}  // namespace makar::kernels
