#include "kernels/cpu/scratch.h"

#include <utility>

#include "tensor/block_pool.h"

namespace makar::kernels {
namespace {

constexpr size_t kMaxKeptBytes = size_t{256} << 10;  // per thread

struct KeptBuffer {
  std::byte* data = nullptr;
  size_t bytes = 0;
  ~KeptBuffer() {
    if (data) BlockPool::shared().deallocate(data, bytes);
  }
};
thread_local KeptBuffer kept;

}  // namespace

Scratch::Scratch(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
  if (bytes_ == 0) return;
  if (kept.bytes >= bytes_)
    data_ = std::exchange(kept.data, nullptr), bytes_ = std::exchange(kept.bytes, 0);
  else
    data_ = BlockPool::shared().allocate(bytes_);
}

Scratch::~Scratch() {
  if (BlockPool::kRecyclesSmall && bytes_ <= kMaxKeptBytes && bytes_ > kept.bytes)
    std::swap(data_, kept.data), std::swap(bytes_, kept.bytes);
  if (data_) BlockPool::shared().deallocate(data_, bytes_);
}

}  // namespace makar::kernels
