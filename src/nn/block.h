// One layer of a stack, run from its spec: a transformer block, a recurrent layer, or attention after
// recurrent layers.
#pragma once
#include <string>

#include "nn/attention.h"
#include "nn/feed_forward.h"
#include "nn/mixer.h"
#include "nn/recurrent.h"

namespace makar {

// The residual stream, and the norm of it that the next sublayer begins with, if that is known.
struct Residual {
  Tensor value, normed;
};

class Block {
 public:
  Block(ParameterSet& set, const std::string& name, int64_t width, const BlockSpec& spec,
        const NormSpec& norm);
  // `next`: the norm that the result goes through next; may be null.
  Residual operator()(ForwardContext& f, const Residual& x, const AttentionInputs& in, int64_t layer,
                      const Norm* next = nullptr) const;
  // The norm that the block begins with; null if there is none.
  const Norm* first_norm() const;

  // Writes the keys and values of an encoded sequence, or the sequence itself for recurrent decoders, into
  // the cache.
  void cache_source(ForwardContext& f, const Tensor& encoded, size_t slot, int64_t layer) const;

  Attention attention, cross;
  Mixer mixer;  // instead of attention
  FeedForward feed_forward;
  RecurrentLayer recurrent;
  SourceAttention alignment;

 private:
  template <class F>
  Residual sublayer(ForwardContext& f, const Residual& x, const Norm& norm, const Norm& after,
                    const Norm* next, F&& body) const;

  // A decoding step in bf16 with few kernels, if this block has them; bit for bit as sublayers
  // (decode_block.cpp).
  bool has_fused_step(const ForwardContext& f, const AttentionInputs& in, int64_t layer) const;
  Tensor fused_step(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const;

  BlockSpec spec_;
  Norm norm1_, norm1_after_, norm_cross_, norm2_, norm2_after_;
};

}  // namespace makar
