#include "tensor/block_pool.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

namespace makar {
namespace {

constexpr size_t kCacheLine = 64, kHugePage = size_t{2} << 20, kMinHugeBytes = 2 * kHugePage;

std::byte* aligned_block(size_t bytes) {
  const bool huge = bytes >= kMinHugeBytes;
  void* block = nullptr;
  if (posix_memalign(&block, huge ? kHugePage : kCacheLine, bytes) != 0) throw std::bad_alloc();
  // Kernels walk weights with strides of kilobytes; with 4 KiB pages each step would miss the TLB.
  if (huge) madvise(block, bytes, MADV_HUGEPAGE);  // a hint; failure is harmless
  return static_cast<std::byte*>(block);
}

}  // namespace

BlockPool& BlockPool::shared() {
  static BlockPool* pool = new BlockPool;  // never destroyed: tensors may outlive every static
  return *pool;
}

BlockPool::~BlockPool() { trim(); }

// Rounds sizes up to sixteenths of a power of two, so that blocks of similar size can be reused.
size_t BlockPool::rounded(size_t bytes) {
  if (bytes <= kMinLargeBytes - kAlign) return std::max(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
  size_t step = kMinLargeBytes / 16;
  while (step * 32 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

std::byte* BlockPool::allocate(size_t bytes) {
  if (bytes > std::numeric_limits<size_t>::max() / 4) throw std::bad_alloc();
  const size_t size = rounded(bytes);
  {
    std::lock_guard lock(mutex_);
    used_ += size;
    peak_ = std::max(peak_, used_);
    if (size < kMinLargeBytes && !small_[size / kAlign].empty()) {
      std::byte* block = small_[size / kAlign].back();
      small_[size / kAlign].pop_back();
      small_bytes_ -= size;
      return block;
    }
    if (size >= kMinLargeBytes) {
      // Take the smallest free block that fits and wastes at most a quarter.
      if (auto it = free_.lower_bound(size); it != free_.end() && it->first <= size + size / 4) {
        std::byte* block = it->second;
        used_ += it->first - size;
        peak_ = std::max(peak_, used_);
        free_bytes_ -= it->first;
        sizes_[block] = it->first;
        free_.erase(it);
        return block;
      }
    }
    if (limit_ > 0) shrink(limit_ - std::min(limit_, used_));
  }
  std::byte* block = aligned_block(size);
  if (size >= kMinLargeBytes) {
    std::lock_guard lock(mutex_);
    sizes_[block] = size;
  }
  return block;
}

void BlockPool::deallocate(std::byte* block, size_t bytes) {
  const size_t size = rounded(bytes);
  std::lock_guard lock(mutex_);
  if (size < kMinLargeBytes) {
    used_ -= size;
    if (kRecyclesSmall && small_bytes_ + size <= kMaxFreeSmallBytes) {
      small_[size / kAlign].push_back(block);
      small_bytes_ += size;
    } else {
      std::free(block);
    }
    return;
  }
  const auto it = sizes_.find(block);
  const size_t block_size = it->second;
  sizes_.erase(it);
  used_ -= block_size;
  free_.emplace(block_size, block);
  free_bytes_ += block_size;
  // By default, unused blocks may fill the peak of use, since a training step frees all that it used and the
  // next one needs it again, and half of the peak in any case; and 64 MiB more.
  const size_t unused = std::max(peak_ / 2, peak_ - used_) + (size_t{64} << 20);
  shrink(limit_ > 0 ? limit_ - std::min(limit_, used_) : unused);
}

void BlockPool::shrink(size_t max) {
  while (free_bytes_ > max && !free_.empty()) {
    auto last = std::prev(free_.end());
    free_bytes_ -= last->first;
    std::free(last->second);
    free_.erase(last);
  }
}

void BlockPool::set_limit(size_t total) {
  // A fixed threshold returns freed blocks to the system at once; malloc's dynamic threshold grows to 32 MiB.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  std::lock_guard lock(mutex_);
  limit_ = total;
  if (limit_ > 0) shrink(limit_ - std::min(limit_, used_));
}

void BlockPool::trim() {
  std::lock_guard lock(mutex_);
  for (const auto& [size, block] : free_) std::free(block);
  free_.clear();
  free_bytes_ = 0;
  for (auto& blocks : small_) {
    for (std::byte* block : blocks) std::free(block);
    blocks.clear();
  }
  small_bytes_ = 0;
}

size_t BlockPool::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}
size_t BlockPool::peak() const {
  std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace makar
