// Ops of a decoding step in bf16 that a device may run as one kernel; bit for bit as the separate ops. No
// gradients. The layers of a call are all packed in bf16, with results in bf16, or all in block types, with
// results in f32.
#pragma once
#include <span>
#include <vector>

#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/rope.h"

namespace makar::ops {

struct RmsNorm {
  Tensor weight;
  float eps = 0, offset = 0;
};

// linears() of the norm of x [rows, width] in f32.
std::vector<Tensor> normed_linears(Context& ctx, const Tensor& x, const RmsNorm& norm,
                                   std::span<const PackedLayer> layers);
// kind(first layer) * second layer, of the norm of x.
Tensor normed_gate(Context& ctx, const Tensor& x, const RmsNorm& norm, const PackedLayer& gate,
                   const PackedLayer& up, Activation kind);
// residual (f32) + the layer of x.
Tensor added_linear(Context& ctx, const Tensor& residual, const Tensor& x, const PackedLayer& layer);

// One new row per sequence: rotates q and k (without `rope`: does not), stores k and v in pages of bf16,
// attends.
Tensor attend_next(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const RopeOptions* rope,
                   const RopeTable& table, const CachedKeys& cache, const AttentionBatch& batch,
                   const AttentionOptions& options);

}  // namespace makar::ops
