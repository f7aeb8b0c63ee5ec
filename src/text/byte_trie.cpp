#include "text/byte_trie.h"

#include <algorithm>

namespace makar {

void ByteTrie::build(std::vector<std::pair<std::string_view, uint32_t>> keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  units_.assign(512, {});
  units_[0].check = UINT32_MAX - 1;
  size_t first_free = 1;  // no unit before this is free

  struct Job {
    uint32_t node;
    size_t begin, end, depth;
  };
  std::vector<Job> jobs = {{0, 0, keys.size(), 0}};
  std::vector<std::pair<unsigned char, size_t>> children;  // label, first key
  while (!jobs.empty()) {
    Job job = jobs.back();
    jobs.pop_back();
    while (job.begin < job.end && keys[job.begin].first.size() == job.depth) {
      if (job.depth > 0) units_[job.node].value = keys[job.begin].second;
      ++job.begin;
    }
    children.clear();
    for (size_t i = job.begin; i < job.end; ++i) {
      const auto label = static_cast<unsigned char>(keys[i].first[job.depth]);
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
    // After a long search the front is nearly full: skip some of it and continue from the end.
    for (int tries = 0; !fits(); ++tries) {
      if (tries == 64) first_free = std::min(first_free + 64, units_.size() - 1);
      base = tries < 64 ? base + 1 : std::max(base + 1, units_.size() - 256);
    }
    if (base + 256 >= units_.size()) units_.resize(base + 512);
    units_[job.node].base = static_cast<uint32_t>(base);
    for (const auto& [label, begin] : children) units_[base + label].check = job.node;
    for (size_t c = 0; c < children.size(); ++c) {
      const size_t end = c + 1 < children.size() ? children[c + 1].second : job.end;
      jobs.push_back(
          {static_cast<uint32_t>(base + children[c].first), children[c].second, end, job.depth + 1});
    }
  }
}

}  // namespace makar
