#include "text/byte_trie.h"

#include <algorithm>

namespace makar {

void ByteTrie::build(std::vector<std::pair<std::string_view, uint32_t>> keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  units_.assign(512, {});
  units_[0].check = UINT32_MAX - 1;
  size_t first_free = 1;  // no unit before this is free

  struct Subtree {  // of the keys [begin, end), which share their first `depth` bytes
    uint32_t node;
    size_t begin, end, depth;
  };
  std::vector<Subtree> pending = {{0, 0, keys.size(), 0}};
  std::vector<std::pair<unsigned char, size_t>> children;  // label, first key
  while (!pending.empty()) {
    Subtree tree = pending.back();
    pending.pop_back();
    while (tree.begin < tree.end && keys[tree.begin].first.size() == tree.depth) {
      if (tree.depth > 0) units_[tree.node].value = keys[tree.begin].second;
      ++tree.begin;
    }
    children.clear();
    for (size_t i = tree.begin; i < tree.end; ++i) {
      const auto label = static_cast<unsigned char>(keys[i].first[tree.depth]);
      if (children.empty() || children.back().first != label) children.emplace_back(label, i);
    }
    if (children.empty()) continue;
    // The first base where all children fall on free units.
    while (first_free < units_.size() && units_[first_free].check != UINT32_MAX) ++first_free;
    size_t base = first_free > children[0].first ? first_free - children[0].first : 1;
    const auto fits = [&] {
      for (const auto& [label, begin] : children)
        if (base + label < units_.size() && units_[base + label].check != UINT32_MAX) return false;
      return true;
    };
    // After many tries, treat 64 units at the front as full and continue near the end.
    for (int tries = 0; !fits(); ++tries) {
      if (tries == 64) first_free = std::min(first_free + 64, units_.size() - 1);
      base = tries < 64 ? base + 1 : std::max(base + 1, units_.size() - 256);
    }
    if (base + 256 >= units_.size()) units_.resize(base + 512);
    units_[tree.node].base = static_cast<uint32_t>(base);
    for (const auto& [label, begin] : children) units_[base + label].check = tree.node;
    for (size_t c = 0; c < children.size(); ++c) {
      const size_t end = c + 1 < children.size() ? children[c + 1].second : tree.end;
      pending.push_back(
          {static_cast<uint32_t>(base + children[c].first), children[c].second, end, tree.depth + 1});
    }
  }
}

}  // namespace makar
