// Products with quantized weights on the GPU: arguments and what the kernels share. The bits are the CPU's (isa/quant.cpp).
#pragma once
#include <vector>

#include "kernels/cpu/isa/activations.h"
#include "kernels/cuda/cuda_weight.cuh"
#include "kernels/cuda/quant_form.cuh"

namespace makar::kernels::cuda {

constexpr int kMaxQuantProducts = 4;

// What is done with the sum of a row and a weight row. Gated: of products 0 and 1, gate and up.
enum class QuantEnding { kFloats, kAdd, kGated };

struct QuantProducts {
  int m, blocks, groups;    // m: rows, or of a tile of `experts`; blocks of 64 k, groups of four
  int row_tiles;            // blockIdx of the rows
  const int32_t* experts;   // the expert of each row tile, -1: none; null: all rows have the same weights
  const std::byte* a;       // quantized activations: [tiles of 8 rows][groups][4 blocks]
  QuantEnding ending;
  Activation kind;          // kGated
  const float* residual;    // kAdd: [m, n]
  float* sum;               // kAdd
  float* gated;             // kGated
  int count;
  struct Product {
    const std::byte* b;
    float* c;  // kFloats
    const float* bias;
    int64_t ldc;
    int n, tiles;
    bool accumulate;  // kFloats
    int64_t expert_bytes;        // from one expert's weights to the next one's
    const float* const* biases;  // of the experts; may be null
  } products[kMaxQuantProducts];
};

// The product with the weights of a row tile's expert.
__device__ inline QuantProducts::Product of_expert(const QuantProducts::Product& all, int expert) {
  QuantProducts::Product one = all;
  one.b += expert * all.expert_bytes;
  if (all.biases) one.bias = all.biases[expert];
  return one;
}

// The value that the sum starts from.
__device__ inline float start_of(const QuantProducts& p, const QuantProducts::Product& to, int row, int column) {
  if (p.ending != QuantEnding::kFloats || !to.accumulate || row >= p.m || column >= to.n) return 0.0f;
  return to.c[row * to.ldc + column];
}
__device__ inline float with_bias(const QuantProducts::Product& to, int column, float sum) {
  return to.bias ? sum + to.bias[column] : sum;
}
__device__ inline void finish(const QuantProducts& p, const QuantProducts::Product& to, int row, int column, float sum) {
  if (row >= p.m || column >= to.n) return;
  const float value = with_bias(to, column, sum);
  const int64_t at = static_cast<int64_t>(row) * to.n + column;
  if (p.ending == QuantEnding::kAdd)
    p.sum[at] = p.residual[at] + value;
  else
    to.c[row * to.ldc + column] = value;
}
__device__ inline void finish_gated(const QuantProducts& p, int row, int column, float gate_sum, float up_sum) {
  const QuantProducts::Product &to = p.products[0], &other = p.products[1];
  if (row >= p.m || column >= to.n) return;
  const float gate = with_bias(to, column, gate_sum), up = with_bias(other, column, up_sum);
  p.gated[static_cast<int64_t>(row) * to.n + column] = (p.kind == Activation::kSilu ? Silu::value(gate) : GeluTanh::value(gate)) * up;
}

// Rows of activations, quantized once for all products whose forms agree in parts, mins and unit.
struct QuantRows {
  const void* x;  // f32 or bf16
  DType type;
  int64_t row_stride, k_stride;
  int64_t rows, k;
  int parts, unit;
  bool mins;
  const int32_t* index = nullptr;  // the row of x of each row, -1: none; may be null
};
inline int64_t quantized_bytes(const QuantRows& a) {
  return (a.rows + kActivationRows - 1) / kActivationRows * groups_of(a.k) * kGroupBlocks * activation_bytes(a.parts, a.mins);
}
void quantize_rows(cudaStream_t stream, const QuantRows& a, std::byte* to);

// Products of one A with weights of block types. The bits do not depend on the number of rows, nor on which products run together.
struct QuantCall {
  QuantRows rows;  // without parts, unit and mins
  const ExpertTiles* tiles = nullptr;  // of the rows; null: all have the same weights
  QuantEnding ending = QuantEnding::kFloats;
  Activation kind = Activation::kSilu;
  const float* residual = nullptr;
  float* sum = nullptr;
  float* gated = nullptr;
  struct Product {
    const CudaWeight* b;
    float* c;
    const float* bias;
    int64_t ldc;
    bool accumulate;
    int64_t expert_bytes = 0;
    const float* const* biases = nullptr;
  };
  std::vector<Product> products;
};
QuantCall quant_call(const PackedGemm& a);  // of the products with block types
bool gates(const QuantCall& call);           // whether kGated has a kernel for these products
void run_quant(cudaStream_t stream, Memory& memory, const QuantCall& call);

// All products have weights of the form. run_quant_few: up to 8 rows.
bool fits_quant_few(const QuantProducts& p);
void run_quant_few(cudaStream_t stream, int form, const QuantProducts& p);
void run_quant_tiled(cudaStream_t stream, int form, const QuantProducts& p);  // not kGated

void pack_blocks(cudaStream_t stream, DType type, const std::byte* x, int64_t n, int64_t k, std::byte* to);
void decode_block_rows(cudaStream_t stream, DType type, const std::byte* x, float* y, int64_t count);
void embed_blocks(cudaStream_t stream, const Embed& a);

}  // namespace makar::kernels::cuda
