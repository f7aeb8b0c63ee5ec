// One layer of a stack, run from its spec: a transformer block, a recurrent layer, or attention after
// recurrent layers.
#pragma once
#include <string>

#include "nn/attention.h"
#include "nn/feed_forward.h"
#include "nn/mixer.h"
#include "nn/recurrent.h"

namespace makar {

class Block {
 public:
  Block(ParameterSet& set, const std::string& name, int64_t width, const BlockSpec& spec,
        const NormSpec& norm);
  Tensor operator()(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const;

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
  Tensor sublayer(ForwardContext& f, const Tensor& x, const Norm& norm, const Norm& after, F&& body) const;

  // A decoding step in bf16 with few kernels, if this block has them; bit for bit as sublayers
  // (decode_block.cpp).
  bool has_fused_step(const ForwardContext& f, const AttentionInputs& in, int64_t layer) const;
  Tensor fused_step(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const;

  BlockSpec spec_;
  Norm norm1_, norm1_after_, norm_cross_, norm2_, norm2_after_;
};

}  // namespace makar
