// Sums of terms per column: over chunks of rows, then over the chunks in order.
#pragma once
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/cuda_device.cuh"

namespace makar::kernels::cuda {

// Rows per chunk, rows at a time, columns per block, groups of chunks.
constexpr int kChunkRows = 128, kRowLanes = 8, kColumns = 256, kGroups = 32;

// Per column, the sums of kSums terms over a chunk of rows: parts[sum][chunk][column].
template <int kSums, class F>
__global__ void __launch_bounds__(32 * kRowLanes) chunk_sums_kernel(int64_t rows, int64_t cols, F term, float* parts) {
  __shared__ float shared[kSums][kRowLanes][kColumns];
  const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
  const int64_t c0 = static_cast<int64_t>(blockIdx.x) * kColumns + lane * 8, left = cols - c0;
  const int64_t r0 = static_cast<int64_t>(blockIdx.y) * kChunkRows;
  float sums[kSums][8] = {};
  if (left > 0)
    for (int64_t r = r0 + part; r < r0 + kChunkRows && r < rows; r += kRowLanes) term(r, c0, left, sums);
  for (int s = 0; s < kSums; ++s)
    for (int j = 0; j < 8; ++j) shared[s][part][lane * 8 + j] = sums[s][j];
  __syncthreads();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  if (c >= cols) return;
  for (int s = 0; s < kSums; ++s) {
    float sum = 0;
    for (int p = 0; p < kRowLanes; ++p) sum += shared[s][p][threadIdx.x];
    parts[(s * gridDim.y + blockIdx.y) * cols + c] = sum;
  }
}
struct ColumnTarget {
  float* y;  // null: not wanted
  bool accumulate;
};
template <int kSums>
struct ColumnTargets {
  ColumnTarget of[kSums];
};
// y (+)= the chunks' sums: 32 groups of consecutive chunks, then the groups in order. blockIdx.y: which of
// the sums.
template <int kSums>
__global__ void add_chunks_kernel(const float* all_parts, int64_t chunks, int64_t cols,
                                  const __grid_constant__ ColumnTargets<kSums> targets) {
  __shared__ float shared[kGroups][32];
  const ColumnTarget to = targets.of[blockIdx.y];
  if (!to.y) return;
  const float* parts = all_parts + blockIdx.y * chunks * cols;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const int64_t per_group = (chunks + kGroups - 1) / kGroups, begin = threadIdx.y * per_group;
  float sum = 0;
  if (c < cols)
    for (int64_t i = begin; i < begin + per_group && i < chunks; ++i) sum += parts[i * cols + c];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= cols) return;
  float total = to.accumulate ? to.y[c] : 0.0f;
  for (int p = 0; p < kGroups; ++p) total += shared[p][threadIdx.x];
  to.y[c] = total;
}
template <int kSums>
void add_chunks(cudaStream_t stream, const float* parts, int64_t chunks, int64_t cols, const ColumnTarget (&to)[kSums]) {
  ColumnTargets<kSums> targets;
  std::copy_n(to, kSums, targets.of);
  launch(stream, dim3(static_cast<unsigned>((cols + 31) / 32), kSums), dim3(32, kGroups), 0, add_chunks_kernel<kSums>, parts,
         chunks, cols, targets);
}
// term(row, column, left, sums) adds the terms of eight columns.
template <int kSums, class F>
void column_totals(cudaStream_t stream, Memory& memory, int64_t rows, int64_t cols, const ColumnTarget (&to)[kSums], F term) {
  if (cols <= 0) return;
  const int64_t chunks = std::max<int64_t>(1, (rows + kChunkRows - 1) / kChunkRows);
  const CudaScratch<float> parts(memory, kSums * chunks * cols);
  const dim3 grid(static_cast<unsigned>((cols + kColumns - 1) / kColumns), static_cast<unsigned>(chunks));
  launch(stream, grid, 32 * kRowLanes, 0, chunk_sums_kernel<kSums, F>, rows, cols, term, parts.data());
  add_chunks(stream, parts.data(), chunks, cols, to);
}

}  // namespace makar::kernels::cuda
