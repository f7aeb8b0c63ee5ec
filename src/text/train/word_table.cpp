#include "text/train/word_table.h"

#include <algorithm>

#include "base/error.h"
#include "text/hash.h"

namespace makar {

void WordTable::add(std::string_view word, uint64_t count) {
  if ((entries_.size() + 1) * 2 > slots_.size()) grow();
  const auto hash = static_cast<uint32_t>(hash_bytes(word) >> 32);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  for (; slots_[at]; at = (at + 1) & mask) {
    Entry& e = entries_[slots_[at] - 1];
    if (e.hash == hash && this->word(e) == word) {
      e.count += count;
      return;
    }
  }
  check(word.size() < (size_t{1} << 32) && entries_.size() + 1 < UINT32_MAX,
        "a word table is limited to 2^32 words");
  entries_.push_back({count, arena_.size(), static_cast<uint32_t>(word.size()), hash});
  arena_ += word;
  slots_[at] = static_cast<uint32_t>(entries_.size());
}

void WordTable::grow() {
  slots_.assign(std::max<size_t>(slots_.size() * 2, 1024), 0);
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    size_t at = entries_[i].hash & mask;
    while (slots_[at]) at = (at + 1) & mask;
    slots_[at] = static_cast<uint32_t>(i + 1);
  }
}

std::vector<uint32_t> WordTable::sorted_indices() const {
  std::vector<uint32_t> order(entries_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return word(entries_[a]) < word(entries_[b]); });
  return order;
}

void WordTable::clear() { *this = WordTable(); }

}  // namespace makar
