// Products of up to 64 rows with packed bf16 weights, at the speed of reading the weights: arguments and what the kernels
// share. Sums run along k in steps of 16 from zero, as in bf16_product.cu, so the bits do not depend on the number of rows.
#pragma once
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/bf16_activations.cuh"
#include "kernels/cuda/cuda_weight.cuh"

namespace makar::kernels::cuda {

constexpr int kTileRows = 16;  // weight rows of one tensor-core instruction
constexpr int kMaxStreamed = 4;
constexpr int kMaxSharedBytes = 227 * 1024;  // of a block, on Hopper

// What is done with the sums of a row and a weight row.
enum class Ending { kStore, kGated, kAdd };

struct Streamed {
  int m, k, tiles;  // tiles: of all products; with kGated, of the first
  bool even;        // results have even widths and addresses of two values
  const Bf16* a;    // [m, k]; with a norm: computed from x
  const float *x, *norm_w;
  float eps, offset;
  Ending ending;
  Activation kind;
  const float* residual;  // kAdd
  float* sum;
  Bf16* gated;  // kGated: products 0 and 1 are gate and up
  int count;
  struct Product {
    const Bf16* b;
    Bf16* c;
    const float* bias;
    int n, tiles;
  } products[kMaxStreamed];
};

// The index of a tile's product; `tile` becomes its index there.
__device__ inline int product_of(const Streamed& p, int& tile) {
  int i = 0;
  while (i + 1 < p.count && tile >= p.products[i].tiles) tile -= p.products[i++].tiles;
  return i;
}

__device__ inline Bf16 with_bias(float sum, const float* bias, int column) {
  return narrow(bias ? sum + widen(narrow(bias[column])) : sum);
}

// The value that kAdd adds to, so that it can be read before the sum is complete.
template <Ending kEnding>
__device__ inline float residual_of(const Streamed& p, const Streamed::Product& to, int row, int column) {
  if (kEnding != Ending::kAdd || row >= p.m || column >= to.n) return 0.0f;
  return p.residual[static_cast<int64_t>(row) * to.n + column];
}
// Ends the sum of a row and a weight row; `up`: of the second product with kGated; `residual`: with kAdd.
template <Ending kEnding>
__device__ inline void finish(const Streamed& p, const Streamed::Product& to, int row, int column, float sum, float up, float residual) {
  if (row >= p.m || column >= to.n) return;
  const int64_t at = static_cast<int64_t>(row) * to.n + column;
  const Bf16 value = with_bias(sum, to.bias, column);
  if constexpr (kEnding == Ending::kStore) {
    to.c[at] = value;
  } else if constexpr (kEnding == Ending::kAdd) {
    p.sum[at] = residual + widen(value);
  } else {
    const float gate = widen(value), u = widen(with_bias(up, p.products[1].bias, column));
    p.gated[at] = narrow(u * (p.kind == Activation::kSilu ? FastSilu::value(gate) : FastGeluTanh::value(gate)));
  }
}
// Of two neighbouring columns, of which the first is even.
template <Ending kEnding>
__device__ inline float2 residuals_of(const Streamed& p, const Streamed::Product& to, int row, int column) {
  if (!p.even) return {residual_of<kEnding>(p, to, row, column), residual_of<kEnding>(p, to, row, column + 1)};
  if (kEnding != Ending::kAdd || row >= p.m || column >= to.n) return {};
  return *reinterpret_cast<const float2*>(p.residual + static_cast<int64_t>(row) * to.n + column);
}
template <Ending kEnding>
__device__ inline void finish_two(const Streamed& p, const Streamed::Product& to, int row, int column, float2 sum, float2 up,
                                  float2 residual) {
  if (!p.even) {
    finish<kEnding>(p, to, row, column, sum.x, up.x, residual.x);
    return finish<kEnding>(p, to, row, column + 1, sum.y, up.y, residual.y);
  }
  if (row >= p.m || column >= to.n) return;
  const int64_t at = static_cast<int64_t>(row) * to.n + column;
  const float low = widen(with_bias(sum.x, to.bias, column)), high = widen(with_bias(sum.y, to.bias, column + 1));
  if constexpr (kEnding == Ending::kStore) {
    *reinterpret_cast<uint32_t*>(to.c + at) = pack_pair(low, high);
  } else if constexpr (kEnding == Ending::kAdd) {
    *reinterpret_cast<float2*>(p.sum + at) = {residual.x + low, residual.y + high};
  } else {
    const float left = widen(with_bias(up.x, p.products[1].bias, column)), right = widen(with_bias(up.y, p.products[1].bias, column + 1));
    const bool silu = p.kind == Activation::kSilu;
    *reinterpret_cast<uint32_t*>(p.gated + at) = pack_pair(left * (silu ? FastSilu::value(low) : FastGeluTanh::value(low)),
                                                           right * (silu ? FastSilu::value(high) : FastGeluTanh::value(high)));
  }
}

// One warp writes the RMSNorm of a row to shared memory, with the bits of norm_bf16. k is a multiple of 256.
__device__ inline void norm_row(const Streamed& p, const float* x, uint32_t to, int lane) {
  float sum = 0.0f, v[8], w[8];
#pragma unroll 8
  for (int c = lane * 8; c < p.k; c += 256) {
    load8(x + c, 8, true, v);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum = fmaf(v[j], v[j], sum);
  }
  const float rstd = rsqrtf(fmaf(warp_sum(sum), 1.0f / static_cast<float>(p.k), p.eps));
#pragma unroll 4
  for (int c = lane * 8; c < p.k; c += 256) {
    load8(x + c, 8, true, v);
    load8(p.norm_w + c, 8, true, w);
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = v[j] * rstd * (w[j] + p.offset);
    store_shared(to + c * 2, pack_eight(v));
  }
}

// The kernels and what they support: up to 8 rows; up to 16; up to 64 rows and few weight rows; up to 64. Only run_few has a norm.
bool fits_few(const Streamed& p);
void run_few(cudaStream_t stream, const Streamed& p);
void run_sixteen(cudaStream_t stream, const Streamed& p);
bool fits_mid(const Streamed& p);
void run_mid(cudaStream_t stream, const Streamed& p);
void run_many(cudaStream_t stream, const Streamed& p);
// Runs the products if a kernel supports them.
bool run_streamed(cudaStream_t stream, const PackedGemmBf16& a);

}  // namespace makar::kernels::cuda
