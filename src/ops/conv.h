// 2-D convolution as unfolding (im2col) and a matrix product; patch embedding is the case stride = kernel.
#pragma once
#include "ops/context.h"

namespace makar::ops {

// x [batch, channels, height, width] -> [batch * out_h * out_w, channels * kernel * kernel], zero padded.
Tensor unfold(Context& ctx, const Tensor& x, int64_t kernel, int64_t stride, int64_t padding = 0);
// The adjoint of unfold: patches [batch * out_h * out_w, channels * kernel * kernel], each added to its place
// -> [batch, channels, height, width].
Tensor fold(Context& ctx, const Tensor& patches, const Shape& shape, int64_t kernel, int64_t stride,
            int64_t padding = 0);

// w [out, channels, kernel, kernel], b [out] or absent -> [batch * out_h * out_w, out]: one row per position.
Tensor conv2d_rows(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, int64_t stride,
                   int64_t padding = 0);

}  // namespace makar::ops
