// Mixed precision: conversions between f32 and bf16 activations, and the ops that compute in bf16. Other ops
// convert bf16 inputs with cast_to_f32() and return f32.
#pragma once
#include <span>

#include "ops/attention.h"
#include "ops/context.h"
#include "ops/linear.h"
#include "ops/softmax.h"

namespace makar::ops {

inline bool computes_bf16(const Context& ctx) { return ctx.activations == DType::kBF16; }
// Whether one of the tensors is a bf16 activation.
template <class... T>
bool any_bf16(const Context& ctx, const T&... t) {
  return computes_bf16(ctx) && ((t.defined() && t.dtype() == DType::kBF16) || ...);
}

// Differentiable; x itself if it has that type.
Tensor cast_to_f32(Context& ctx, const Tensor& x);
Tensor cast_to_bf16(Context& ctx, const Tensor& x);

// Records the gradient of y = a + b: of an f32 and a bf16 tensor of one shape.
void record_add_bf16(Context& ctx, const Tensor& a, const Tensor& b, const Tensor& y);

// The bf16 cases of the ops with these names.
Tensor linear_bf16(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b);
Tensor linear_cross_entropy_bf16(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b,
                                 std::span<const int64_t> targets, const CrossEntropyOptions& options);
Tensor attend_bf16(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionBatch& batch, const AttentionOptions& options);
// Whether attend_bf16 has kernels for these options.
bool attends_bf16(const Context& ctx, const AttentionBatch& batch, const AttentionOptions& options);

}  // namespace makar::ops
