// Self- and cross-attention layers.
#pragma once
#include <string>

#include "nn/batch.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace makar {

// What all layers of one forward share.
struct AttentionInputs {
  const Batch* batch = nullptr;
  ops::RopeTable rope;
  ops::RopeTable sink_rope;  // how queries look at sinks; undefined while all of them stand in the window
  ops::DistanceBias bias;    // ALiBi or the T5 table
  // Cross-attention: the encoder's output and its sequences; the output may be absent once the cache holds
  // them.
  Tensor encoded;
  const Batch* encoder_batch = nullptr;
};

class Attention {
 public:
  Attention() = default;
  Attention(ParameterSet& set, const std::string& name, int64_t width, const AttentionSpec& spec,
            const NormSpec& norm);

  // x [N, width] attends to itself.
  Tensor self(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer,
              int64_t window) const;
  // The keys and values of one encoded sequence go into the cache.
  void remember(ForwardContext& f, const Tensor& encoded, size_t slot, int64_t layer) const;
  // x attends to in.encoded.
  Tensor cross(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const;

  Linear q, k, v, o;

 private:
  ops::AttentionOptions options(int64_t window) const;
  AttentionSpec spec_;
  Norm q_norm_, k_norm_;
};

}  // namespace makar
