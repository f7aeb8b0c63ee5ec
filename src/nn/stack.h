// A stack of blocks with its embedding: one implementation for all transformer families.
#pragma once
#include <memory>
#include <vector>

#include "nn/block.h"
#include "nn/convolution.h"
#include "nn/embedding.h"
#include "nn/scalar_mix.h"

namespace makar {

class Stack {
 public:
  // `tokens`: the token table of another stack (shared embeddings), or null.
  Stack(ParameterSet& set, const StackSpec& spec, Parameter* tokens = nullptr);

  // -> [N, width] after the final norm (and projection), or the mix of the layers.
  Tensor operator()(ForwardContext& f, const Batch& batch, const Tensor& encoded = {},
                    const Batch* encoder_batch = nullptr) const;

  // The output of the last layer, even if the stack mixes its layers.
  Tensor top(ForwardContext& f, const Batch& batch) const { return run(f, batch, {}, nullptr, nullptr); }

  // Writes the cross-attention keys and values of an encoded sequence into the cache.
  void read_source(ForwardContext& f, const Tensor& encoded, size_t slot) const;

  // Whether a forward pass on Batch::on_device has kernels for all of its layers and never needs the host.
  bool reads_device_rows() const;

  const StackSpec& spec() const { return spec_; }
  Parameter* tokens() const { return embedding_.tokens(); }
  std::vector<Block>& blocks() { return blocks_; }
  // Projections before and after the blocks; undefined if the stack has none.
  Linear& project_in() { return embedding_.project(); }
  Linear& project_out() { return project_out_; }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  // Inputs of attention that depend on positions: rotary angles and biases. Layers that need the same ones
  // share an entry.
  struct Positions {
    AttentionSpec attention;
    Parameter* t5_bias = nullptr;
    std::vector<float> alibi;
    Parameter* rotary = nullptr;  // [rotary_rows, rotary]: sines, then cosines
  };
  size_t positions_for(ParameterSet& set, const AttentionSpec& attention);
  ops::DistanceBias bias_of(const Positions& positions) const;
  ops::RopeTable rope_of(ForwardContext& f, const Positions& positions, const Batch& batch) const;
  const Block& block(int64_t layer) const;
  // Uploads the sequences; with a cache, their page tables too.
  ops::AttentionBatch self_batch(ForwardContext& f, const Batch& batch) const;
  ops::AttentionBatch cross_batch(ForwardContext& f, const Batch& batch, const Tensor& encoded,
                                  const Batch* encoder_batch) const;
  // One per entry of positions_.
  std::vector<AttentionInputs> inputs(ForwardContext& f, const Batch& batch, const Tensor& encoded,
                                      const Batch* encoder_batch) const;
  Tensor relative_table(Context& ctx) const;
  Tensor run_checkpointed(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const;
  // `states` receives the embedding and the output of each layer; may be null.
  Tensor run(ForwardContext& f, const Batch& batch, const Tensor& encoded, const Batch* encoder_batch,
             std::vector<Tensor>* states) const;
  StackSpec spec_;
  Embedding embedding_;
  std::vector<Block> blocks_;
  std::vector<Positions> positions_;
  std::vector<size_t> positions_of_;  // index into positions_, by layer
  Norm final_norm_;
  Parameter* relative_ = nullptr;  // RelativeSpec::kDisentangled: [2 * span, width]
  Norm relative_norm_;
  Convolution convolution_;
  Linear project_out_;
  ScalarMix mix_;
};

// ALiBi slopes for any number of heads, with the authors' extension to numbers that are not powers of two.
std::vector<float> alibi_slopes(int64_t heads);

}  // namespace makar
