// Elementwise arithmetic, activations, gated feed-forward, dropout.
#pragma once
#include <string>

#include "ops/context.h"

namespace makar::ops {

using kernels::Activation;

// a + b; b may also be a suffix of a's shape (a bias or a position table), repeated over the leading
// dimensions.
Tensor add(Context& ctx, const Tensor& a, const Tensor& b);
Tensor subtract(Context& ctx, const Tensor& a, const Tensor& b);
Tensor multiply(Context& ctx, const Tensor& a, const Tensor& b);  // b as in add
Tensor divide(Context& ctx, const Tensor& a, const Tensor& b);    // equal shapes
Tensor scale(Context& ctx, const Tensor& x, float factor);
Tensor shift(Context& ctx, const Tensor& x, float constant);  // x + constant

Tensor activate(Context& ctx, const Tensor& x, Activation kind);
// act(gate) * up (Shazeer, 2020)
Tensor gated(Context& ctx, const Tensor& gate, const Tensor& up, Activation kind);
// cap * tanh(x / cap)
Tensor soft_cap(Context& ctx, const Tensor& x, float cap);
// Elementwise minimum; the gradient goes to the chosen operand (to a if equal).
Tensor minimum(Context& ctx, const Tensor& a, const Tensor& b);
Tensor maximum(Context& ctx, const Tensor& a, const Tensor& b);
// x limited to [low, high]; no gradient outside.
Tensor clamp(Context& ctx, const Tensor& x, float low, float high);

// If ctx.training, zeroes elements with probability `rate` and scales the rest. Depends only on (seed, step,
// stream, index).
Tensor dropout(Context& ctx, const Tensor& x, float rate);

}  // namespace makar::ops
