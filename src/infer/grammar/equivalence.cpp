// Finds nodes that behave identically for a number of bytes: partition refinement, one round per byte.
#include <unordered_map>

#include "infer/grammar/automaton.h"

namespace makar::grammar {
namespace {

struct Hash128 {
  uint64_t a = 0x243F6A8885A308D3u, b = 0x13198A2E03707344u;
  void add(uint64_t x) {
    a = (a ^ x) * 0x9FB21C651E98DF25u, a ^= a >> 32;
    b = (b + x) * 0xD6E8FEB86659FD93u, b ^= b >> 29;
  }
  bool operator==(const Hash128&) const = default;
};
struct HashOfHash {
  size_t operator()(const Hash128& h) const { return h.a; }
};

}  // namespace

// Calls are compared by identity: a round follows the edges that read a byte, but not into called rules.
// Classes are distinguished by a 128-bit hash.
std::vector<int32_t> equivalent_nodes(const std::vector<Node>& nodes, int bytes, WorkBudget& work) {
  const size_t count = nodes.size();
  std::vector<int32_t> class_of(count, 0), next(count);
  size_t class_count = 0;
  for (int round = 0; round <= bytes; ++round) {
    std::unordered_map<Hash128, int32_t, HashOfHash> classes;
    for (size_t i = 0; i < count; ++i) {
      if (!work.spend(1 + static_cast<int64_t>(nodes[i].edges.size()) / 4)) return {};
      Hash128 h;
      h.add(nodes[i].final);
      for (const Call& c : nodes[i].calls)
        h.add(static_cast<uint64_t>(c.start) << 32 | static_cast<uint32_t>(c.back));
      h.add(uint64_t{1} << 63);
      if (round > 0)
        for (const Edge& e : nodes[i].edges)
          h.add(uint64_t{e.low} << 48 | uint64_t{e.high} << 40 |
                static_cast<uint32_t>(class_of[static_cast<size_t>(e.to)]));
      next[i] = classes.try_emplace(h, static_cast<int32_t>(classes.size())).first->second;
    }
    class_of.swap(next);
    if (classes.size() == class_count && round > 1) break;  // fixed point: no class was split
    class_count = classes.size();
  }
  std::vector<int32_t> first(class_count, -1), members(class_count, 0), out(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t k = static_cast<size_t>(class_of[i]);
    if (first[k] < 0) first[k] = static_cast<int32_t>(i);
    ++members[k];
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t k = static_cast<size_t>(class_of[i]);
    out[i] = members[k] > 1 ? first[k] : -1;
  }
  return out;
}

}  // namespace makar::grammar
