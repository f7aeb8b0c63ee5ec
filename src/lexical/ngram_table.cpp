#include "lexical/ngram_table.h"

namespace makar {

void NgramTable::grow() {
  slots_.assign(slots_.empty() ? 64 : slots_.size() * 2, kNone);
  const size_t mask = slots_.size() - 1;
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    size_t at = hash_u64(keys_[i]) & mask;
    while (slots_[at] != kNone) at = (at + 1) & mask;
    slots_[at] = i;
  }
}

uint32_t NgramTable::add(uint32_t prefix, uint32_t word) {
  if (keys_.size() * 10 >= slots_.size() * 7) grow();
  const uint64_t key = uint64_t{prefix} << 32 | word;
  const size_t mask = slots_.size() - 1;
  size_t at = hash_u64(key) & mask;
  for (; slots_[at] != kNone; at = (at + 1) & mask)
    if (keys_[slots_[at]] == key) return slots_[at];
  slots_[at] = static_cast<uint32_t>(keys_.size());
  keys_.push_back(key);
  return slots_[at];
}

uint32_t NgramTable::find(uint32_t prefix, uint32_t word) const {
  if (slots_.empty()) return kNone;
  const uint64_t key = uint64_t{prefix} << 32 | word;
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash_u64(key) & mask; slots_[at] != kNone; at = (at + 1) & mask)
    if (keys_[slots_[at]] == key) return slots_[at];
  return kNone;
}

}  // namespace makar
