#include "infer/grammar/mask_cache.h"

#include <limits>

namespace makar::grammar {
namespace {

constexpr size_t kMaxStateMaskBytes = size_t{16} << 20, kMaxLocalMaskBytes = size_t{64} << 20;

uint64_t hash_of(const Snapshot& s, uint64_t serial) {
  uint64_t h = serial * 2 + (s.may_end ? 1 : 0);
  const auto mix = [&h](int32_t x) {
    h = (h ^ static_cast<uint32_t>(x)) * 0x9FB21C651E98DF25u, h ^= h >> 29;
  };
  for (const Frame& f : s.frames) mix(f.back), mix(f.parent);
  for (const Parse& w : s.parses) mix(w.node), mix(w.frame);
  return h;
}

void set(std::vector<uint64_t>& bits, uint32_t id) { bits[id / 64] |= uint64_t{1} << (id % 64); }

// Walks the subtree below `root` from `state` and calls visit(node, state) for each live node. Follows only
// paths to tokens of more than `from` bytes, up to `to` bytes. Stops when the machine exceeds its limit.
template <class Visit>
void walk(Machine& m, const TokenTrie::Data& t, uint32_t root, int32_t state, size_t from, size_t to,
          const Visit& visit) {
  std::vector<int32_t> path(static_cast<size_t>(t.max_depth) + 1);
  path[t.depth[root]] = state;
  size_t visited = 0;
  for (uint32_t n = root + 1; n < t.after[root] && !m.limit_exceeded();) {
    constexpr size_t kNodesPerStep = 8;  // cached moves that cost one step
    if (++visited % kNodesPerStep == 0) m.count(1);
    const size_t depth = t.depth[n];
    const int32_t next = t.subtree_depth[n] > from ? m.step(path[depth - 1], t.byte[n]) : Machine::kDead;
    if (next == Machine::kDead) {
      n = t.after[n];
      continue;
    }
    if (depth > from) visit(n, next);
    path[depth] = next;
    n = m.finished(next) || depth >= to ? t.after[n] : n + 1;
  }
}

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

}  // namespace

Result<std::shared_ptr<const LocalMask>> MaskCache::local(const Automaton& automaton, const TokenTrie& trie,
                                                          int32_t node, size_t from, size_t to,
                                                          size_t& steps) {
  const TokenTrie::Data& t = trie.data();
  const uint64_t key = t.serial << 33 | static_cast<uint64_t>(from > 0) << 32 | static_cast<uint32_t>(node);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = locals_.find(key); found != locals_.end()) return found->second;
  }
  auto out = std::make_shared<LocalMask>();
  constexpr size_t kMachineSteps = 64;  // cost of allocating the machine's tables
  Machine m(automaton, steps);
  m.count(kMachineSteps);
  walk(m, t, 0, m.at_node(node), from, to, [&](uint32_t n, int32_t state) {
    for (uint32_t i = t.tokens_begin[n]; i < t.tokens_begin[n + 1]; ++i) out->tokens.push_back(t.tokens[i]);
    if (m.may_end(state) && t.after[n] > n + 1) out->exits.push_back(n);
  });
  if (m.limit_exceeded()) return m.limit();
  steps -= m.steps();
  if (out->tokens.size() > trie.vocab() / 32) {
    out->bits.resize(trie.words());
    for (const uint32_t id : out->tokens) set(out->bits, id);
    out->tokens = {};
  }
  const std::lock_guard lock(mutex_);
  if (local_bytes_ + out->bytes() > kMaxLocalMaskBytes) locals_.clear(), local_bytes_ = 0;
  local_bytes_ += out->bytes();
  locals_[key] = out;
  return std::shared_ptr<const LocalMask>(out);
}

Result<std::shared_ptr<const MaskCache::Bits>> MaskCache::compute(const Automaton& automaton,
                                                                  const TokenTrie& trie,
                                                                  const Snapshot& state, size_t steps) {
  const TokenTrie::Data& t = trie.data();
  auto bits = std::make_shared<Bits>(trie.words());
  Machine m(automaton, state, steps);
  const auto add_mask = [&](const LocalMask& local_mask, int32_t frame) {
    for (size_t i = 0; i < local_mask.bits.size(); ++i) (*bits)[i] |= local_mask.bits[i];
    for (const uint32_t id : local_mask.tokens) set(*bits, id);
    if (frame == kBottom || local_mask.exits.empty()) return;
    const int32_t after = m.after_return(frame);
    for (const uint32_t exit : local_mask.exits)
      walk(m, t, exit, after, 0, kNoLimit, [&](uint32_t n, int32_t) {
        for (uint32_t i = t.tokens_begin[n]; i < t.tokens_begin[n + 1]; ++i) set(*bits, t.tokens[i]);
      });
  };
  for (const Parse& w : state.parses) {
    const int32_t equivalent = automaton.equivalent[static_cast<size_t>(w.node)];
    MAKAR_TRY(const auto local_mask, local(automaton, trie, equivalent < 0 ? w.node : equivalent, 0,
                                           equivalent < 0 ? kNoLimit : kEquivalentBytes, steps));
    add_mask(*local_mask, w.frame);
    if (equivalent < 0 || t.max_depth <= kEquivalentBytes) continue;
    MAKAR_TRY(const auto long_token_mask, local(automaton, trie, w.node, kEquivalentBytes, kNoLimit, steps));
    add_mask(*long_token_mask, w.frame);
  }
  if (m.limit_exceeded()) return m.limit();
  return std::shared_ptr<const Bits>(bits);
}

Result<std::shared_ptr<const MaskCache::Bits>> MaskCache::mask(const Automaton& automaton,
                                                               const TokenTrie& trie,
                                                               const std::shared_ptr<const Snapshot>& state,
                                                               size_t steps) {
  const uint64_t serial = trie.data().serial, hash = hash_of(*state, serial);
  {
    const std::lock_guard lock(mutex_);
    const auto [from, to] = state_mask_index_.equal_range(hash);
    for (auto i = from; i != to; ++i)
      if (i->second->serial == serial && *i->second->state == *state) {
        state_masks_.splice(state_masks_.begin(), state_masks_, i->second);
        return i->second->bits;
      }
  }
  MAKAR_TRY(const auto bits, compute(automaton, trie, *state, steps));
  const std::lock_guard lock(mutex_);
  state_mask_bytes_ += bits->size() * 8;
  state_masks_.push_front({serial, state, bits});
  state_mask_index_.emplace(hash, state_masks_.begin());
  while (state_mask_bytes_ > kMaxStateMaskBytes && state_masks_.size() > 1) {
    const auto last = std::prev(state_masks_.end());
    const auto [from, to] = state_mask_index_.equal_range(hash_of(*last->state, last->serial));
    for (auto i = from; i != to; ++i)
      if (i->second == last) {
        state_mask_index_.erase(i);
        break;
      }
    state_mask_bytes_ -= last->bits->size() * 8;
    state_masks_.erase(last);
  }
  return bits;
}

}  // namespace makar::grammar
