// Matrix products: y = x W^T (+ b), with W in f32, f16 or bf16.
#pragma once
#include "kernels/gemm.h"
#include "ops/context.h"

namespace makar::ops {

// x [..., in], w [out, in], b [out] or absent -> [..., out]. `packed`, when defined, holds the same w for
// this machine's kernels: the same bits, less work.
Tensor linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b = {},
              const kernels::PackedMatrix* packed = nullptr);

// a [m, k] b [k, n] -> [m, n]; with transpose_b, b is [n, k].
Tensor matmul(Context& ctx, const Tensor& a, const Tensor& b, bool transpose_b = false);

}  // namespace makar::ops
