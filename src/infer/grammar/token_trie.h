// The vocabulary as a byte trie in preorder. A grammar walks it to find the tokens that may come next.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace makar {

// An immutable handle: copies share their data. Thread-safe.
class TokenTrie {
 public:
  // tokens[id]: the bytes that the token adds to the text. Empty for special and control tokens, which a
  // grammar never allows; `end` tokens are allowed where the text may end.
  TokenTrie(std::span<const std::string> tokens, std::vector<int64_t> end);

  // Nodes in preorder: the children of n start at n + 1, the next sibling of n is after[n]; node 0 is the
  // root.
  struct Data {
    std::vector<uint8_t> byte;
    std::vector<uint16_t> depth;          // 0 for the root
    std::vector<uint32_t> after;          // first node after the subtree
    std::vector<uint16_t> subtree_depth;  // depth of the deepest node in the subtree
    std::vector<uint32_t> tokens_begin;   // tokens of node n: tokens[tokens_begin[n]..tokens_begin[n + 1])
    std::vector<uint32_t> tokens;         // ids
    std::vector<int64_t> end;
    size_t vocab = 0;
    uint16_t max_depth = 0;
    uint64_t serial = 0;  // unique per trie in the process
  };
  const Data& data() const { return *data_; }
  size_t vocab() const { return data_->vocab; }
  size_t words() const { return (data_->vocab + 63) / 64; }  // words per mask

 private:
  std::shared_ptr<const Data> data_;
};

}  // namespace makar
