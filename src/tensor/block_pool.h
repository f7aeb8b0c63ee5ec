// Recycles large blocks of memory: a training step frees and takes the same sizes again and again, and fresh
// pages from the system cost more than the arithmetic on them. Of blocks under 64 KiB a few of each size are
// kept, for a token is written in hundreds of them.
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
  static BlockPool& shared();  // the one allocator, as malloc is one

  std::byte* take(size_t bytes);
  void give(std::byte* block, size_t bytes);
  // Returns all unused blocks to the system.
  void trim();
  // From now on unused blocks go back before those in use and they together exceed `total` bytes; 0: as ever.
  void bound(size_t total);
  // Bytes handed out now, and the most there ever were.
  size_t used() const;
  size_t peak() const;

  ~BlockPool();

 private:
  static constexpr size_t kAlign = 64, kSmall = size_t{64} << 10, kSmallKept = size_t{1} << 20;
  mutable std::mutex mutex_;
  std::array<std::vector<std::byte*>, kSmall / kAlign> small_;  // free ones, by size
  size_t small_bytes_ = 0;                                      // of them, kSmallKept at most
  std::multimap<size_t, std::byte*> free_;                      // by size
  std::unordered_map<std::byte*, size_t> sizes_;                // of the large blocks handed out
  static size_t rounded(size_t bytes);
  void shrink(size_t most);                                  // of the unused blocks, the largest first
  size_t free_bytes_ = 0, used_ = 0, peak_ = 0, bound_ = 0;  // bound_ 0: none
};

}  // namespace makar
