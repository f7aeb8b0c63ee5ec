// Linear: y = x W^T (+ b). W may be f32, f16, bf16 or a block type of GGUF; an adapter may stand beside it
// (LoRA, Hu et al., 2021; DoRA, Liu et al., 2024).
#pragma once
#include <memory>
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
  // Several layers on one x, as each of them gives alone.
  static std::vector<Tensor> together(Context& ctx, const Tensor& x,
                                      std::initializer_list<const Linear*> all);
  Parameter* weight() const { return weight_; }
  Parameter* bias() const { return bias_; }
  int64_t in() const { return weight_->shape[1]; }
  int64_t out() const { return weight_->shape[0]; }

  void attach(std::shared_ptr<Adapter> adapter) { adapter_ = std::move(adapter); }
  void detach() { adapter_ = nullptr; }
  const Adapter* adapter() const { return adapter_.get(); }
  // An adapter that rows may take by its number (Context::row_adapters), beside the attached one. A row's
  // result is that of the adapter attached, to the bit.
  void offer(size_t number, std::shared_ptr<const Adapter> adapter);
  // W with the adapter folded in: W + scale B A, rows rescaled for DoRA.
  Tensor merged(Context& ctx) const;

  // Lays the weight out for the kernels once; for frozen weights only.
  void pack(ThreadPool& pool);
  // Lets a packed weight go that nobody else holds, unless it is a view of its file, which costs nothing.
  void release();
  void unpack() { packed_ = nullptr; }

 private:
  Tensor with_attached(Context& ctx, const Tensor& x) const;
  Tensor with_offered(Context& ctx, const Tensor& x, Tensor y) const;
  Tensor with_magnitude(Context& ctx, const Tensor& x) const;
  Parameter *weight_ = nullptr, *bias_ = nullptr;
  std::shared_ptr<Adapter> adapter_;
  std::vector<std::shared_ptr<const Adapter>> offered_;
  std::shared_ptr<kernels::PackedMatrix> packed_;
};

}  // namespace makar
