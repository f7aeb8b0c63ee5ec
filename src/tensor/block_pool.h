// Recycles large memory blocks: a training step allocates and frees the same sizes repeatedly, and fresh
// pages from the system cost more than the arithmetic on them. Also keeps a few blocks of each size under 64
// KiB, because decoding a token allocates hundreds of them.
#pragma once
#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace makar {

class BlockPool {
 public:
  static BlockPool& shared();  // the process-wide pool
#if defined(__SANITIZE_ADDRESS__)
  static constexpr bool kRecyclesSmall = false;  // so that the sanitizer detects use after free
#elif defined(__has_feature)
  static constexpr bool kRecyclesSmall = !__has_feature(address_sanitizer);
#else
  static constexpr bool kRecyclesSmall = true;
#endif

  std::byte* allocate(size_t bytes);
  void deallocate(std::byte* block, size_t bytes);
  // Returns the pool's unused blocks to the system (not the buffers that threads keep:
  // kernels/cpu/scratch.h).
  void trim();
  // From now on frees unused blocks when used and unused blocks together would exceed `total` bytes; 0: the
  // default limit on unused blocks.
  void set_limit(size_t total);
  // Bytes in use now, and their peak.
  size_t used() const;
  size_t peak() const;

  ~BlockPool();

 private:
  static constexpr size_t kAlign = 64, kMinLargeBytes = size_t{64} << 10,
                          kMaxFreeSmallBytes = size_t{1} << 20;
  mutable std::mutex mutex_;
  std::array<std::vector<std::byte*>, kMinLargeBytes / kAlign> small_;  // free blocks, by size
  size_t small_bytes_ = 0;                  // total of the free small blocks, at most kMaxFreeSmallBytes
  std::multimap<size_t, std::byte*> free_;  // by size
  std::unordered_map<std::byte*, size_t> sizes_;  // sizes of the large blocks in use
  static size_t rounded(size_t bytes);
  void shrink(size_t max);  // frees unused blocks down to `max` bytes, the largest first
  size_t free_bytes_ = 0, used_ = 0, peak_ = 0, limit_ = 0;  // limit_ 0: the default limit
};

}  // namespace makar
