// A byte trie in one double array (base and check), to find every token that starts at a position.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace makar {

class ByteTrie {
 public:
  // Keys in any order; of equal keys the last one is used. Empty keys are ignored.
  void build(std::vector<std::pair<std::string_view, uint32_t>> keys);

  // Calls f(length, value) for every key that is a prefix of the text, shortest first; stops when f returns
  // false.
  template <class F>
  void prefixes(std::string_view text, F f) const {
    if (units_.empty()) return;
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const uint32_t next = units_[node].base + static_cast<unsigned char>(text[i]);
      if (next >= units_.size() || units_[next].check != node) return;
      node = next;
      if (units_[node].value != UINT32_MAX && !f(i + 1, units_[node].value)) return;
    }
  }

 private:
  struct Unit {
    uint32_t base = 0, check = UINT32_MAX, value = UINT32_MAX;
  };
  std::vector<Unit> units_;
};

}  // namespace makar
