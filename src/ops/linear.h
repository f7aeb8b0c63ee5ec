// Matrix products: y = x W^T (+ b), with W in f32, f16, bf16 or a block type of GGUF.
#pragma once
#include <span>
#include <vector>

#include "kernels/gemm.h"
#include "ops/context.h"

namespace makar::ops {

// x [..., in], w [out, in], b [out] or absent -> [..., out]. `packed`, when defined, holds the same w for
// this machine's kernels: the same bits, less work. A w of a block type is multiplied as it is, x rounded to
// int8 or 16 bits (kernels/quant.h), and is packed for the call when `packed` is not given; it gets no
// gradient, and x gets that of the decoded w.
Tensor linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b = {},
              const kernels::PackedMatrix* packed = nullptr);

// Several layers on one x, without a gradient: the bits of each alone.
struct PackedLayer {
  Tensor bias;
  const kernels::PackedMatrix* packed;
};
std::vector<Tensor> linears(Context& ctx, const Tensor& x, std::span<const PackedLayer> layers);

// Any float or block type as f32.
Tensor decoded(ThreadPool& pool, const Tensor& x);

// out = (accumulate ? out : 0) + dy [m, out features] w, for a w of any type.
void input_gradient(ThreadPool& pool, int64_t m, const float* dy, const Tensor& w, kernels::GemmOutput out);

// a [m, k] b [k, n] -> [m, n]; with transpose_b, b is [n, k].
Tensor matmul(Context& ctx, const Tensor& a, const Tensor& b, bool transpose_b = false);

}  // namespace makar::ops
