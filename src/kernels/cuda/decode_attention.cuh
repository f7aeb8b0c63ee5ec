// Attention of a decoding step in one kernel (bf16_decode_attention.cu).
#pragma once
#include "kernels/bf16_args.h"
#include "kernels/cuda/launch.cuh"

namespace makar::kernels::cuda {

// Runs the kernel if it supports the shape.
bool run_decode_attention(cudaStream_t stream, const DecodeAttentionBf16& a);

}  // namespace makar::kernels::cuda
