#include "infer/grammar/token_trie.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string_view>

namespace makar {

TokenTrie::TokenTrie(std::span<const std::string> tokens, std::vector<int64_t> end) {
  constexpr size_t kMaxTokenBytes = 4096;  // longer tokens are never allowed by a grammar
  static std::atomic<uint64_t> counter = 0;
  auto data = std::make_shared<Data>();
  Data& d = *data;
  d.vocab = tokens.size();
  d.serial = ++counter;
  std::vector<uint32_t> order;
  for (size_t id = 0; id < tokens.size(); ++id)
    if (!tokens[id].empty() && tokens[id].size() <= kMaxTokenBytes)
      order.push_back(static_cast<uint32_t>(id));
  for (const int64_t id : end)
    if (id >= 0 && static_cast<size_t>(id) < d.vocab) d.end.push_back(id);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const int c = tokens[a].compare(tokens[b]);
    return c != 0 ? c < 0 : a < b;
  });
  std::vector<uint32_t> path = {0};  // trie path of the previous token
  std::vector<uint32_t> parents;     // parent of each node
  const auto add = [&](uint8_t byte, size_t depth) {
    parents.push_back(depth > 0 ? path[depth - 1] : 0);
    d.byte.push_back(byte), d.depth.push_back(static_cast<uint16_t>(depth)), d.after.push_back(0);
    d.tokens_begin.push_back(static_cast<uint32_t>(d.tokens.size()));
  };
  const auto close = [&](size_t length) {
    for (; path.size() > length + 1; path.pop_back())
      d.after[path.back()] = static_cast<uint32_t>(d.byte.size());
  };
  add(0, 0);
  std::string_view previous;
  for (const uint32_t id : order) {
    const std::string& text = tokens[id];
    const size_t shared = static_cast<size_t>(
        std::mismatch(text.begin(), text.end(), previous.begin(), previous.end()).first - text.begin());
    close(shared);
    for (size_t i = shared; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(d.byte.size()));
      add(static_cast<uint8_t>(text[i]), i + 1);
    }
    d.max_depth = std::max(d.max_depth, static_cast<uint16_t>(text.size()));
    d.tokens.push_back(id);
    previous = text;
  }
  close(0);
  d.after[0] = static_cast<uint32_t>(d.byte.size());
  d.subtree_depth = d.depth;
  for (uint32_t n = static_cast<uint32_t>(d.byte.size()); n-- > 1;) {  // children come after their parents
    d.subtree_depth[parents[n]] = std::max(d.subtree_depth[parents[n]], d.subtree_depth[n]);
  }
  d.tokens_begin.push_back(static_cast<uint32_t>(d.tokens.size()));
  data_ = std::move(data);
}

}  // namespace makar
