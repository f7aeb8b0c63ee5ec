// Matrix products: y = x W^T (+ b), with W in f32, f16, bf16 or a block type of GGUF.
#pragma once
#include <span>
#include <vector>

#include "ops/context.h"

namespace makar::ops {

// x [..., in], w [out, in], b [out] or absent -> [..., out]. `packed`: optional, the same w packed for the
// device's kernels; same bits, less work. The CPU multiplies a block-type w without decoding, with x rounded
// to int8 or 16 bits (kernels/cpu/quant.h); the GPU decodes it to f32. Without `packed`, a block-type w is
// packed for this call. It gets no gradient; x gets the gradient of the decoded w.
Tensor linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b = {},
              const kernels::PackedWeight* packed = nullptr);

// Several layers on one x, without a gradient; bit-identical to separate calls.
struct PackedLayer {
  Tensor bias;
  const kernels::PackedWeight* packed;
};
std::vector<Tensor> linears(Context& ctx, const Tensor& x, std::span<const PackedLayer> layers);

// Decodes any float or block type to f32.
Tensor decode_to_f32(Device& device, const Tensor& x);

// out = (accumulate ? out : 0) + dy [m, out features] w, for a w of any type.
void input_gradient(Device& device, int64_t m, const float* dy, const Tensor& w, kernels::GemmOutput out);

// a [m, k] b [k, n] -> [m, n]; with transpose_b, b is [n, k].
Tensor matmul(Context& ctx, const Tensor& a, const Tensor& b, bool transpose_b = false);

}  // namespace makar::ops
