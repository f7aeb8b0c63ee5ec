// A ragged batch: tokens of all sequences laid end to end. A training batch, a prefill chunk and a decode
// step are all this.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "nn/cache.h"
#include "ops/attention.h"
#include "ops/context.h"

namespace makar {

struct Sequence {
  int64_t start = 0, length = 0;
  int64_t past = 0;    // tokens of it already in the cache
  size_t slot = 0;     // its place in the cache
  int64_t unseen = 0;  // rows at its end that attend but are not attended to: another framework's padding
};

struct Batch {
  std::vector<int64_t> tokens;     // [N]
  std::vector<int64_t> positions;  // [N]
  std::vector<int64_t> types;      // [N] or empty
  Tensor pixels;                   // [images, channels, height, width] instead of tokens
  std::vector<Sequence> sequences;

  int64_t rows() const { return static_cast<int64_t>(positions.size()); }
  void add(const std::vector<int64_t>& ids, int64_t first_position = 0);
};

// What a forward writes down for whoever wants to look.
struct Record {
  bool hidden = false, attention = false;
  std::vector<int64_t> attention_layers;  // the maps of these alone; empty: of all
  std::vector<Tensor> hidden_states;      // what enters the first block, then after each
  std::vector<std::vector<Tensor>>
      attentions;  // [layer][sequence]: [heads, rows, keys]; empty: not asked for
  std::vector<std::vector<Tensor>> cross_attentions;
  std::vector<Tensor> router_probabilities;          // [layer]: [tokens, experts]
  std::vector<std::vector<int64_t>> router_choices;  // [layer]: experts_per_token for each token

  bool wants_attention(int64_t layer) const {
    return attention &&
           (attention_layers.empty() ||
            std::find(attention_layers.begin(), attention_layers.end(), layer) != attention_layers.end());
  }
};

// A context that never ends (Xiao et al., 2023): a token sees the first `sinks` tokens and the last `window`,
// at the positions they have among those. Off where sinks is 0. Layers with a window of their own keep it.
struct SinkWindow {
  int64_t sinks = 0, window = 0;
};

struct ForwardContext {
  Context& ops;
  KvCache* cache = nullptr;
  Record* record = nullptr;
  bool checkpoint = false;  // recompute blocks in the backward pass
  SinkWindow stream = {};   // with a cache
};

}  // namespace makar
