// A stack of blocks with its embedding: the one transformer that every family is a spec of.
#pragma once
#include <memory>
#include <vector>

#include "nn/block.h"
#include "nn/embedding.h"

namespace makar {

class Stack {
 public:
  // `tokens`: a token table made by another stack, or null.
  Stack(ParameterSet& set, const StackSpec& spec, Parameter* tokens = nullptr);

  // -> [N, width] after the final norm (and projection).
  Tensor operator()(ForwardContext& f, const Batch& batch, const Tensor& encoded = {},
                    const Batch* encoder_batch = nullptr) const;

  // Writes what cross-attention reads of one encoded sequence into the cache.
  void read_source(ForwardContext& f, const Tensor& encoded, size_t slot) const;

  const StackSpec& spec() const { return spec_; }
  Parameter* tokens() const { return embedding_.tokens(); }
  std::vector<Block>& blocks() { return blocks_; }
  // Around the blocks; undefined where the stack has none.
  Linear& project_in() { return embedding_.project(); }
  Linear& project_out() { return project_out_; }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  const Block& block(int64_t layer) const;
  StackSpec spec_;
  Embedding embedding_;
  std::vector<Block> blocks_;
  Parameter* t5_bias_ = nullptr;
  std::vector<float> alibi_;
  Norm final_norm_;
  Linear project_out_;
};

// The slopes of ALiBi for any number of heads, as the paper extends them beyond powers of two.
std::vector<float> alibi_slopes(int64_t heads);

}  // namespace makar
