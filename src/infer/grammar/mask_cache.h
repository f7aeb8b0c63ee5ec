// Masks that were computed before. What a node allows by itself (without the stack under it) is shared by all
// places of a grammar that call its rule; whole masks are kept for the states met last.
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "infer/grammar/machine.h"
#include "infer/grammar/token_trie.h"

namespace makar::grammar {

// The tokens a node allows whatever lies under it, and the places of the trie at which its rule ends in the
// midst of tokens: what follows there is up to the stack.
struct LocalMask {
  std::vector<uint32_t> tokens;  // or, where they are many,
  std::vector<uint64_t> bits;
  std::vector<uint32_t> exits;
  size_t bytes() const { return tokens.size() * 4 + bits.size() * 8 + exits.size() * 4; }
};

class MaskCache {
 public:
  using Bits = std::vector<uint64_t>;
  // The mask of a state, from the cache or computed; the end tokens are not part of it.
  Result<std::shared_ptr<const Bits>> mask(const Automaton& automaton, const TokenTrie& trie,
                                           const std::shared_ptr<const Snapshot>& state);

 private:
  // Of the tokens of more than `from` and up to `to` bytes.
  Result<std::shared_ptr<const LocalMask>> local(const Automaton& automaton, const TokenTrie& trie,
                                                 int32_t node, size_t from, size_t to);
  Result<std::shared_ptr<const Bits>> compute(const Automaton& automaton, const TokenTrie& trie,
                                              const Snapshot& state);

  struct Whole {
    uint64_t serial;
    std::shared_ptr<const Snapshot> state;
    std::shared_ptr<const Bits> bits;
  };
  std::mutex mutex_;
  std::list<Whole> wholes_;  // the last used first
  std::unordered_multimap<uint64_t, std::list<Whole>::iterator> whole_index_;
  size_t whole_bytes_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<const LocalMask>> locals_;  // by (serial, node, from)
  size_t local_bytes_ = 0;
};

}  // namespace makar::grammar
