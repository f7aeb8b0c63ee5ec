#include "infer/prefix_cache.h"

namespace makar {
namespace {

std::vector<int64_t> page_tokens(std::span<const int64_t> tokens, size_t page) {
  const auto part = tokens.subspan(page * KvCache::kPageRows, KvCache::kPageRows);
  return {part.begin(), part.end()};
}

}  // namespace

std::vector<KvCache::Page> PrefixCache::find(const std::string& salt, std::span<const int64_t> tokens) {
  std::vector<KvCache::Page> pages;
  std::vector<Node*> path;
  const auto root = roots_.find(salt);
  if (root == roots_.end()) return pages;
  Node* at = &root->second;
  for (size_t i = 0; (i + 1) * KvCache::kPageRows <= tokens.size(); ++i) {
    const auto child = at->children.find(page_tokens(tokens, i));
    if (child == at->children.end()) break;
    at = &child->second;
    path.push_back(at);
    pages.push_back(at->page);
  }
  for (Node* node : path) touch(*node);
  return pages;
}

void PrefixCache::add(const std::string& salt, std::span<const int64_t> tokens,
                      const std::vector<KvCache::Page>& pages) {
  Node* at = &roots_[salt];
  for (size_t i = 0; (i + 1) * KvCache::kPageRows <= tokens.size() && i < pages.size(); ++i) {
    if (pages[i] < 0) return;  // the page has left the attention window
    const auto [child, added] = at->children.try_emplace(page_tokens(tokens, i));
    Node& node = child->second;
    if (added) {
      cache_.retain(pages[i]);
      node.page = pages[i], node.parent = at, node.key = &child->first;
      recent_.push_front(&node);
      node.recent = recent_.begin();
    }
    at = &node;
  }
}

bool PrefixCache::evict() {
  // Evict leaves first. A page that has left every attention window may have descendants in use: they are
  // removed from the tree with it and stay in their sequences.
  for (const bool leaf : {true, false})
    for (auto it = recent_.rbegin(); it != recent_.rend(); ++it) {
      Node* node = *it;
      if ((leaf && !node->children.empty()) || cache_.users(node->page) > 1) continue;
      std::vector<Node*> evicted = {node};
      for (size_t i = 0; i < evicted.size(); ++i) {
        for (auto& [tokens, child] : evicted[i]->children) evicted.push_back(&child);
        cache_.release_page(evicted[i]->page);
        recent_.erase(evicted[i]->recent);
      }
      const Key key = *node->key;
      node->parent->children.erase(key);
      return true;
    }
  return false;
}

void PrefixCache::clear() {
  for (Node* node : recent_) cache_.release_page(node->page);
  recent_.clear();
  roots_.clear();
}

}  // namespace makar
