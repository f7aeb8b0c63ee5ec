// Rows in the pages of the KV cache: the states of recurrent layers and the outputs of an encoder.
// read_rows() runs the attention kernel with a window of one key, which returns that key's value exactly.
#pragma once
#include <vector>

#include "nn/attention.h"

namespace makar {

// Writes rows [N, at most kv_heads * head_dim] as the values of a batch's tokens.
void write_rows(ForwardContext& f, const Tensor& rows, const ops::AttentionBatch& batch,
                const AttentionSpec& cache_spec, int64_t layer);
// Reads the rows of cached tokens: for each sequence, q_rows tokens from `past` on. -> [sum of q_rows,
// kv_heads * head_dim]
Tensor read_rows(ForwardContext& f, std::vector<ops::SequenceRows> sequences, const Tensor& pages,
                 const AttentionSpec& cache_spec, int64_t layer);
// Writes the output of an encoder into the cross-attention pages of a sequence.
void write_source(ForwardContext& f, const Tensor& encoded, const AttentionSpec& cache_spec, size_t slot,
                  int64_t layer);

// The outputs of an encoder, by sequence.
struct Source {
  Tensor rows;  // [sum of lengths, width]
  std::vector<int64_t> lengths;
  std::vector<Tensor> by_sequence;  // the rows of each sequence
  std::vector<Tensor> keys;         // set by SourceAttention
};
// From in.encoded, or with a cache from its cross-attention pages.
Source source_of(ForwardContext& f, const AttentionInputs& in, const AttentionSpec& cache_spec, int64_t width,
                 int64_t layer);

}  // namespace makar
