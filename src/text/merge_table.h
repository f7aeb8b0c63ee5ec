// The merges of a BPE model: maps a pair of ids to its rank and the merged id.
#pragma once
#include <cstdint>
#include <vector>

#include "text/hash.h"

namespace makar {

struct Merge {
  uint32_t rank = UINT32_MAX;
  uint32_t id = 0;
};

class MergeTable {
 public:
  void reserve(size_t merges) {
    size_t size = 64;
    while (size < merges * 2) size *= 2;
    slots_.assign(size, {});
  }
  // A pair added twice keeps the later rank.
  void add(uint32_t left, uint32_t right, Merge merge) {
    Slot& slot = slots_[find_slot(left, right)];
    slot = {left, right, merge};
  }
  // Prefetches the slot of a pair.
  void fetch(uint32_t left, uint32_t right) const {
    __builtin_prefetch(&slots_[(hash_pair(left, right) >> 32) & (slots_.size() - 1)]);
  }
  // Returns rank UINT32_MAX when the pair does not merge.
  Merge find(uint32_t left, uint32_t right) const {
    if (slots_.empty()) return {};
    return slots_[find_slot(left, right)].merge;
  }
  template <class F>
  void each(F f) const {
    for (const Slot& s : slots_)
      if (s.merge.rank != UINT32_MAX) f(s.left, s.right, s.merge);
  }

 private:
  struct Slot {
    uint32_t left = 0, right = 0;
    Merge merge;
  };
  size_t find_slot(uint32_t left, uint32_t right) const {
    const size_t mask = slots_.size() - 1;
    size_t at = (hash_pair(left, right) >> 32) & mask;
    while (slots_[at].merge.rank != UINT32_MAX && (slots_[at].left != left || slots_[at].right != right))
      at = (at + 1) & mask;
    return at;
  }
  std::vector<Slot> slots_;
};

}  // namespace makar
