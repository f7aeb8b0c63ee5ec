// Pairs of adjacent symbols: their counts and the words that contain them, by a hash of the pair.
#pragma once
#include <cstdint>
#include <vector>

namespace makar {

class PairIndex {
 public:
  struct Pair {
    uint64_t key;  // left << 32 | right
    int64_t count = 0;
    std::vector<uint32_t> new_words;  // words that gained the pair since it was last queued, ascending
  };

  static uint64_t key(uint32_t left, uint32_t right) { return static_cast<uint64_t>(left) << 32 | right; }

  PairIndex() : slots_(1 << 12) {}
  Pair& operator[](uint32_t index) { return pairs_[index]; }

  // The index of the pair; adds unknown pairs.
  uint32_t find(uint64_t key) {
    if ((pairs_.size() + 1) * 2 > slots_.size()) grow();
    const size_t mask = slots_.size() - 1;
    size_t at = start(key);
    for (; slots_[at].index; at = (at + 1) & mask)
      if (slots_[at].key == key) return slots_[at].index - 1;
    pairs_.push_back({key, 0, {}});
    slots_[at] = {key, static_cast<uint32_t>(pairs_.size())};
    return static_cast<uint32_t>(pairs_.size() - 1);
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t index = 0;  // index of the pair + 1; 0 is free
  };
  size_t start(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u >> 32) & (slots_.size() - 1); }
  void grow() {
    slots_.assign(slots_.size() * 2, {});
    const size_t mask = slots_.size() - 1;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      size_t at = start(pairs_[i].key);
      while (slots_[at].index) at = (at + 1) & mask;
      slots_[at] = {pairs_[i].key, static_cast<uint32_t>(i + 1)};
    }
  }
  std::vector<Pair> pairs_;
  std::vector<Slot> slots_;
};

}  // namespace makar
