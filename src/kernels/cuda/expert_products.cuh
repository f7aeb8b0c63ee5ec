// Products of routed rows with the weights of their experts, by type of the weights.
#pragma once
#include <cuda_runtime.h>

#include "kernels/cuda/cuda_weight.cuh"

namespace makar::kernels::cuda {

// Rows of a tile of an ExpertTiles: with few rows per expert, with many.
constexpr int kFewPlaces = 8, kManyPlaces = 64;

void run_routed_f32(cudaStream_t stream, const ExpertProducts& a);     // row-major weights in f32, f16 or bf16
void run_routed_bf16(cudaStream_t stream, const ExpertProducts& a);    // x in bf16
void run_routed_quant(cudaStream_t stream, Memory& memory, const ExpertProducts& a);  // block types

}  // namespace makar::kernels::cuda
