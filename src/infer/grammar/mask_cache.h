// Caches token masks. The mask of a node by itself (without the stack below it) is shared by all callers of
// its rule; complete masks are cached for the most recent states.
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "infer/grammar/machine.h"
#include "infer/grammar/token_trie.h"

namespace makar::grammar {

// The tokens that a node allows regardless of the stack, and the trie nodes at which its rule ends inside a
// token: there, the stack decides what may follow.
struct LocalMask {
  std::vector<uint32_t> tokens;  // token list, or a bit mask if there are many
  std::vector<uint64_t> bits;
  std::vector<uint32_t> exits;
  size_t bytes() const { return tokens.size() * 4 + bits.size() * 8 + exits.size() * 4; }
};

class MaskCache {
 public:
  using Bits = std::vector<uint64_t>;
  // The mask of a state, from the cache or computed in at most `steps` steps; excludes end tokens.
  Result<std::shared_ptr<const Bits>> mask(const Automaton& automaton, const TokenTrie& trie,
                                           const std::shared_ptr<const Snapshot>& state, size_t steps);

 private:
  // For tokens of more than `from` and up to `to` bytes. `steps`: remaining steps of the whole mask.
  Result<std::shared_ptr<const LocalMask>> local(const Automaton& automaton, const TokenTrie& trie,
                                                 int32_t node, size_t from, size_t to, size_t& steps);
  Result<std::shared_ptr<const Bits>> compute(const Automaton& automaton, const TokenTrie& trie,
                                              const Snapshot& state, size_t steps);

  struct StateMask {
    uint64_t serial;
    std::shared_ptr<const Snapshot> state;
    std::shared_ptr<const Bits> bits;
  };
  std::mutex mutex_;
  std::list<StateMask> state_masks_;  // most recently used first
  std::unordered_multimap<uint64_t, std::list<StateMask>::iterator> state_mask_index_;
  size_t state_mask_bytes_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<const LocalMask>> locals_;  // by (serial, node, from)
  size_t local_bytes_ = 0;
};

}  // namespace makar::grammar
