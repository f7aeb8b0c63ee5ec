// Linear: y = x W^T (+ b). W may be f32, f16, bf16 or a GGUF block type, with an optional adapter (LoRA, Hu
// et al., 2021; DoRA, Liu et al., 2024).
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nn/parameter.h"
#include "ops/linear.h"

namespace makar {

struct Adapter {
  Parameter *a = nullptr, *b = nullptr;  // [rank, in], [out, rank]
  Parameter* magnitude = nullptr;        // [out]: DoRA
  float scale = 1.0f;
  float dropout = 0.0f;
};

class Linear {
 public:
  Linear() = default;
  Linear(ParameterSet& set, const std::string& name, int64_t in, int64_t out, bool bias);
  // A layer whose weight is another parameter, e.g. tied embeddings.
  Linear(Parameter* weight, Parameter* bias) : weight_(weight), bias_(bias) {}

  bool defined() const { return weight_ != nullptr; }
  Tensor operator()(Context& ctx, const Tensor& x) const;
  // Applies several layers to one x; the results equal those of separate calls.
  static std::vector<Tensor> together(Context& ctx, const Tensor& x,
                                      std::initializer_list<const Linear*> linears);
  Parameter* weight() const { return weight_; }
  Parameter* bias() const { return bias_; }
  int64_t in() const { return weight_->shape[1]; }
  int64_t out() const { return weight_->shape[0]; }

  void attach(std::shared_ptr<Adapter> adapter) { adapter_ = std::move(adapter); }
  void detach() { adapter_ = nullptr; }
  const Adapter* adapter() const { return adapter_.get(); }
  // Registers an adapter that rows select by index (Context::row_adapters), in addition to the attached one.
  // Results are bit-identical to attaching that adapter.
  void add_row_adapter(size_t number, std::shared_ptr<const Adapter> adapter);
  // W with the adapter merged: W + scale B A, rows rescaled for DoRA.
  Tensor merged(Context& ctx) const;

  // Packs the weight for the device's kernels. The copy does not follow later updates of the weight: call
  // unpack() before an update. With activations in bf16, floats are rounded to bf16.
  void pack(Device& device, DType activations = DType::kF32);
  // The same for layers of one shape, such as those of all experts, so that one kernel can multiply by all.
  static void pack_together(Device& device, std::span<Linear* const> linears, DType activations);
  bool packed() const { return packed_ != nullptr; }
  // The type it is packed in; f32 if it is not packed or has an adapter.
  DType plain_type() const { return packed_ && !adapter_ ? packed_->type() : DType::kF32; }
  // Whether it was packed with others, and has no adapter.
  bool packed_together() const { return packed_ && together_ && !adapter_; }
  ops::PackedLayer layer() const { return {bias_ ? bias_->value : Tensor(), packed_.get()}; }
  // Frees the unpacked weight after pack(), unless an adapter needs it or it is a view of a mapped file,
  // whose pages pack() has released.
  void release();
  void unpack() { packed_ = nullptr; }

 private:
  Tensor with_attached(Context& ctx, const Tensor& x) const;
  Tensor with_row_adapters(Context& ctx, const Tensor& x, Tensor y) const;
  Tensor with_magnitude(Context& ctx, const Tensor& x) const;
  Parameter *weight_ = nullptr, *bias_ = nullptr;
  std::shared_ptr<Adapter> adapter_;
  std::vector<std::shared_ptr<const Adapter>> row_adapters_;
  std::shared_ptr<const kernels::PackedWeight> packed_;
  bool together_ = false;
};

}  // namespace makar
