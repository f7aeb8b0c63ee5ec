// A ragged batch: the tokens of all sequences, concatenated. Training, prefill and decoding all use it.
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
  int64_t past = 0;    // tokens already in the cache
  size_t slot = 0;     // cache slot
  int64_t unseen = 0;  // trailing rows that attend but are not attended to (padding, targets of XLNet)
  int64_t total = 0;   // tokens of the whole text if known: rotary scaling may depend on them
};

// A decoding step whose inputs are in device memory, so that kernels can write them: one row per sequence.
struct DeviceRows {
  Tensor tokens, positions;  // [N] i64
  Tensor sequences;          // [N] of kernels::SequenceRows, as i64 [N, 6]
  Tensor pages;              // [N, max_pages] i64: the addresses of a sequence's cache pages
  int64_t max_pages = 0;
};

struct Batch {
  std::vector<int64_t> tokens;     // [N]
  std::vector<int64_t> positions;  // [N]
  std::vector<int64_t> types;      // [N] or empty
  Tensor pixels;                   // [images, channels, height, width] instead of tokens
  // Rows that replace token embeddings, e.g. image patches: row i of `features` replaces row feature_rows[i].
  Tensor features;
  std::vector<int64_t> feature_rows;
  // Permuted order (XLNet, Yang et al., 2019), [N] or empty: 0 for context, else the index of a target in the
  // order. A row attends to context, to targets before it and, unless it is one of the last `unseen` rows of
  // its sequence, to itself. Relative attention only.
  std::vector<int64_t> order;
  std::vector<Sequence> sequences;
  // If set, the forward pass reads tokens, positions and pages here; the fields above have N rows of any
  // content. For stacks that Stack::reads_device_rows() accepts, with a cache.
  const DeviceRows* on_device = nullptr;

  int64_t rows() const { return static_cast<int64_t>(positions.size()); }
  void add(const std::vector<int64_t>& ids, int64_t first_position = 0);
};

// Intermediate results of a forward pass, recorded on request.
struct Record {
  bool hidden = false, attention = false;
  std::vector<int64_t> attention_layers;  // record only these layers; empty: all
  std::vector<Tensor> hidden_states;      // input of the first block, then the output of each block
  // [layer][sequence]: [heads, rows, keys]; empty: not requested.
  std::vector<std::vector<Tensor>> attentions;
  std::vector<std::vector<Tensor>> cross_attentions;
  // The rotated queries and keys of self-attention, [layer]: [N, heads * head_dim], with gradients, for
  // losses on attention scores. Not with checkpointed blocks.
  bool attention_inputs = false;
  std::vector<Tensor> queries, keys;
  std::vector<Tensor> router_probabilities;          // [layer]: [tokens, experts]
  std::vector<std::vector<int64_t>> router_choices;  // [layer]: experts_per_token per token

  bool wants_attention(int64_t layer) const {
    return attention &&
           (attention_layers.empty() ||
            std::find(attention_layers.begin(), attention_layers.end(), layer) != attention_layers.end());
  }
};

// Unbounded context with attention sinks (Xiao et al., 2023): a token attends to the first `sinks` tokens and
// the last `window`, and positions are counted among these tokens only. Off if sinks is 0. Layers with their
// own window keep it.
struct SinkWindow {
  int64_t sinks = 0, window = 0;
};

struct ForwardContext {
  Context& ops;
  KvCache* cache = nullptr;
  Record* record = nullptr;
  bool checkpoint = false;      // recompute blocks in the backward pass
  SinkWindow sink_window = {};  // used with a cache only
};

}  // namespace makar
