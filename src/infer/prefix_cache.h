// Cache pages of earlier prompts, by their tokens: a tree whose edges are full pages. The tokens themselves
// are compared, not only hashes, and each salt has its own tree, so that no tenant can probe the prompts of
// another.
#pragma once
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "nn/cache.h"

namespace makar {

class PrefixCache {
 public:
  explicit PrefixCache(KvCache& cache) : cache_(cache) {}
  ~PrefixCache() { clear(); }
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The longest run of whole cached pages that is a prefix of `tokens`.
  std::vector<KvCache::Page> find(const std::string& salt, std::span<const int64_t> tokens);
  // Adds the whole pages of a computed sequence.
  void add(const std::string& salt, std::span<const int64_t> tokens, const std::vector<KvCache::Page>& pages);
  // Evicts the least recently used page that nothing else references; false if there is none.
  bool evict();
  void clear();
  int64_t pages() const { return static_cast<int64_t>(recent_.size()); }

 private:
  using Key = std::vector<int64_t>;  // the tokens of a page
  struct Node {
    KvCache::Page page = -1;
    Node* parent = nullptr;
    std::map<Key, Node> children;
    const Key* key = nullptr;
    std::list<Node*>::iterator recent;
  };
  void touch(Node& node) { recent_.splice(recent_.begin(), recent_, node.recent); }

  KvCache& cache_;
  std::map<std::string, Node> roots_;
  std::list<Node*> recent_;  // most recently used first; children before their parents
};

}  // namespace makar
