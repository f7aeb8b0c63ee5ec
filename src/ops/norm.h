// LayerNorm, RMSNorm, BatchNorm.
#pragma once
#include "ops/context.h"

namespace makar::ops {

// Over the last dimension (Ba et al., 2016). w and b may be absent.
Tensor layer_norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, float eps);
// x / rms(x) * (w + offset) over the last dimension (Zhang & Sennrich, 2019); offset is 1 in Gemma.
Tensor rms_norm(Context& ctx, const Tensor& x, const Tensor& w, float eps, float offset = 0.0f);

// A layer's output added to the residual stream, and the norm of the sum: with the bits of add() and one of
// the above.
struct NormWeights {
  bool rms;
  Tensor w, b;
  float eps, offset = 0.0f;
};
struct NormedSum {
  Tensor sum, normed;
};
NormedSum add_norm(Context& ctx, const Tensor& x, const Tensor& addend, const NormWeights& weights);

// Over all but the last dimension (Ioffe & Szegedy, 2015). Training uses the batch statistics and updates the
// running ones in place; otherwise the running statistics are used, if any.
struct BatchNormState {
  Tensor running_mean, running_var;
  float momentum = 0.1f;
};
Tensor batch_norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                  BatchNormState& state);

}  // namespace makar::ops
