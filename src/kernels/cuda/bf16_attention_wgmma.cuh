// Attention of many rows with heads of at most 64, on wgmma. The forward pass has the bits of the kernels on
// mma.sync.
#pragma once
#include "kernels/cuda/bf16_attention_keys.cuh"

namespace makar::kernels::cuda {

void attend_wgmma(cudaStream_t stream, const AttentionBf16& a, const MatrixKeys& keys);
void attend_wgmma(cudaStream_t stream, const AttentionBf16& a, const PageKeys& keys);
// row_values [rows, heads]: scratch
void attend_backward_wgmma(cudaStream_t stream, const AttentionBackwardBf16& a, float2* row_values);

}  // namespace makar::kernels::cuda
